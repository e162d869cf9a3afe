package config

import "time"

// Config is all settings. Each group is what one room takes: main converts it
// to that room's Options, so the fields are the same in name, type and order.
//
// Tags: env is the variable, envDefault its default, doc its meaning; min and
// max bound numbers and durations, oneof lists the words allowed, check names a
// rule of load.go, secret keeps the value out of messages and lets it come from
// the file that <variable>_FILE names. A field without env is filled in by main.
type Config struct {
	HTTP    HTTP    `doc:"HTTP"`
	Roles   Roles   `doc:"Roles: what this process does"`
	Store   Store   `doc:"Store"`
	KubeMQ  KubeMQ  `doc:"KubeMQ server"`
	Broker  Broker  `doc:"Embedded broker (without KUBEMQ_ADDRESS)"`
	Queue   Queue   `doc:"Work queue"`
	Workers Workers `doc:"Workers"`
	Notify  Notify  `doc:"Status events and their subscribers"`
	Run     Run     `doc:"Process"`
}

// HTTP is for api.
type HTTP struct {
	Addr    string   `env:"HTTP_ADDR" envDefault:":8080" check:"address" doc:"Where the HTTP server listens; port 0 takes a free one."`
	APIKeys []string `env:"API_KEYS" secret:"true" doc:"Keys, separated by commas, one of which every request needs, the page and the probes excepted. Empty: no key is needed."`
	Version string
	MaxBody int64 `env:"MAX_BODY" envDefault:"1048576" min:"1024" max:"67108864" doc:"Largest request body in bytes."`
}

// Roles says which roles run in this process.
type Roles struct {
	API       bool `env:"API_ENABLED" envDefault:"true" doc:"HTTP API, page, probes and metrics."`
	Workers   bool `env:"WORKERS_ENABLED" envDefault:"true" doc:"Workers that carry orders out, and the sweeper."`
	Email     bool `env:"EMAIL_ENABLED" envDefault:"true" doc:"Mails on status changes."`
	Push      bool `env:"PUSH_ENABLED" envDefault:"true" doc:"Pushes on status changes."`
	Analytics bool `env:"ANALYTICS_ENABLED" envDefault:"true" doc:"Counts and revenue per status and minute."`
	DLQ       bool `env:"DLQ_ENABLED" envDefault:"true" doc:"Takes messages off DLQ_CHANNEL into the store. Off: they stay there."`
}

// Store is for orders.
type Store struct {
	DatabaseURL    string        `env:"DATABASE_URL" check:"postgres" secret:"true" doc:"postgres://… of the database. Empty: SQLite in DATA_DIR."`
	DataDir        string        `env:"DATA_DIR" envDefault:"./data" check:"needed" doc:"Folder for SQLite, the embedded broker and the instance files. Made if it is not there."`
	Lease          time.Duration `env:"LEASE" envDefault:"6s" min:"1s" max:"10m" doc:"How long a process that says nothing is taken to be alive; renewed every third of it."`
	Expiration     time.Duration `env:"ORDER_EXPIRATION" envDefault:"5m" min:"1s" max:"12h" doc:"How long an order may take to be confirmed before it expires."`
	MaxAttempts    int           `env:"MAX_ATTEMPTS" envDefault:"5" min:"1" max:"1024" doc:"Failed steps before an order becomes a dead letter; also the receive count after which the broker dead-letters a message."`
	MaxDeaths      int           `env:"MAX_DEATHS" envDefault:"3" min:"1" max:"1000" doc:"Workers that died with an order before it becomes a dead letter."`
	IdempotencyTTL time.Duration `env:"IDEMPOTENCY_TTL" envDefault:"24h" min:"1m" max:"8760h" doc:"How long an Idempotency-Key is remembered."`
	EventRetention time.Duration `env:"EVENT_RETENTION" envDefault:"720h" min:"1h" max:"87600h" doc:"How long the event log, handled marks and deliveries are kept. An order's history stays with the order."`
	OrderRetention time.Duration `env:"ORDER_RETENTION" envDefault:"0s" min:"0s" max:"876000h" doc:"How long finished orders are kept, with all that belongs to them; not less than EVENT_RETENTION, and not while a dead letter is open. 0: for ever."`
	BackorderMax   time.Duration `env:"BACKORDER_MAX" envDefault:"72h" min:"1m" max:"8760h" doc:"How long an order may wait for stock before it becomes a dead letter."`
	MaxRedrives    int           `env:"MAX_REDRIVES" envDefault:"10" min:"0" max:"1000000" doc:"How often an order may be redriven without force=true. 0: without end."`
}

// KubeMQ is for queue.Connection.
type KubeMQ struct {
	Address       string `env:"KUBEMQ_ADDRESS" check:"hostport" doc:"host:port of a KubeMQ server or cluster. Empty: the embedded broker."`
	AuthToken     string `env:"KUBEMQ_AUTH_TOKEN" secret:"true" doc:"Token for the KubeMQ server."`
	TLSCA         string `env:"KUBEMQ_TLS_CA" doc:"PEM file of the authority that signed the server's certificate. Empty: no TLS."`
	TLSCert       string `env:"KUBEMQ_TLS_CERT" doc:"PEM file of our certificate, for mutual TLS."`
	TLSKey        string `env:"KUBEMQ_TLS_KEY" doc:"PEM file of its key."`
	TLSServerName string `env:"KUBEMQ_TLS_SERVER_NAME" doc:"Name in the server's certificate, if it is not that of KUBEMQ_ADDRESS."`
}

// Broker is for broker.
type Broker struct {
	Addr      string `env:"BROKER_ADDR" envDefault:"127.0.0.1:50000" check:"addressOrOff" doc:"Where the embedded broker listens. off: a private loopback port, for this process only."`
	DataDir   string
	AuthToken string `env:"BROKER_AUTH_TOKEN" secret:"true" doc:"Token that clients of the embedded broker need. Empty: none."`
	Version   string
}

// Queue is for queue.
type Queue struct {
	OrdersChannel   string        `env:"ORDERS_CHANNEL" envDefault:"orders" check:"channel" doc:"Queue of orders. Other programs may put orders there; only orderd's workers may take them."`
	RetryChannel    string        `env:"RETRY_CHANNEL" envDefault:"orders.retry" check:"channel" doc:"Queue of orders whose retry is due."`
	DLQChannel      string        `env:"DLQ_CHANNEL" envDefault:"orders.dlq" check:"channel" doc:"Queue of dead letters."`
	PollMaxItems    int           `env:"POLL_MAX_ITEMS" envDefault:"5" min:"1" max:"1000" doc:"Most messages that one poll asks for."`
	PollWait        time.Duration `env:"POLL_WAIT" envDefault:"10s" min:"1s" max:"1h" doc:"Longest wait of a poll, in whole seconds; 2s at most on a KubeMQ server."`
	MaxReceiveCount int           `env:"MAX_ATTEMPTS"`
}

// Workers is for workers.
type Workers struct {
	Workers         int           `env:"WORKERS" envDefault:"4" min:"1" max:"10000" doc:"Order steps that run at once."`
	MaxAttempts     int           `env:"MAX_ATTEMPTS"`
	StepTimeout     time.Duration `env:"STEP_TIMEOUT" envDefault:"30s" min:"1ms" max:"1h" doc:"Deadline of one step. Not above VISIBILITY."`
	Visibility      time.Duration `env:"VISIBILITY" envDefault:"120s" min:"1s" max:"12h" doc:"Longest time an order may be held without finishing a step."`
	RetryBase       time.Duration `env:"RETRY_BASE" envDefault:"1s" min:"1ms" max:"1h" doc:"Upper bound of the first retry's delay; doubles with each attempt."`
	RetryCap        time.Duration `env:"RETRY_CAP" envDefault:"1m" min:"1ms" max:"24h" doc:"Upper bound of every retry's delay, Retry-After included. Not below RETRY_BASE."`
	PaymentURL      string        `env:"PAYMENT_URL" check:"http" secret:"true" doc:"Payment gateway. Empty: the simulator."`
	PaymentToken    string        `env:"PAYMENT_TOKEN" secret:"true" doc:"Bearer token for the payment gateway."`
	Backorder       bool          `env:"BACKORDER" envDefault:"false" doc:"An order without enough stock waits for it. Off: it becomes a dead letter."`
	BackorderRetry  time.Duration `env:"BACKORDER_RETRY" envDefault:"30s" min:"10ms" max:"24h" doc:"How often an order that waits looks for stock."`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT"`
}

// Notify is for notify.
type Notify struct {
	EventsChannel    string        `env:"EVENTS_CHANNEL" envDefault:"order-notifications" check:"channel" doc:"Channel of status events, as Events and as Events Store."`
	SMTPURL          string        `env:"SMTP_URL" check:"smtp" secret:"true" doc:"smtp://[user:password@]host:port[?tls=starttls|implicit|none]. Empty: one log line per mail."`
	EmailFrom        string        `env:"EMAIL_FROM" envDefault:"orders@localhost" check:"mail" doc:"Sender of mails."`
	EmailStatuses    []string      `env:"EMAIL_STATUSES" envDefault:"confirmed,shipped" check:"statuses" doc:"Statuses that are mailed, separated by commas."`
	PushURL          string        `env:"PUSH_URL" check:"http" secret:"true" doc:"Where pushes are posted. Empty: one log line per push."`
	PushStatuses     []string      `env:"PUSH_STATUSES" check:"statuses" doc:"Statuses that are pushed, separated by commas. Empty: all."`
	AnalyticsWorkers int           `env:"ANALYTICS_WORKERS" envDefault:"2" min:"1" max:"100" doc:"Analytics subscriptions of this process; they share their group's events."`
	SendTimeout      time.Duration `env:"SEND_TIMEOUT" envDefault:"15s" min:"100ms" max:"10m" doc:"Deadline of one mail or push."`
	SendAttempts     int           `env:"SEND_ATTEMPTS" envDefault:"10" min:"1" max:"1000" doc:"Tries before a mail or push has failed."`
	RetryBase        time.Duration `env:"RETRY_BASE"`
	RetryCap         time.Duration `env:"RETRY_CAP"`
}

// Run is for main.
type Run struct {
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"30s" min:"1s" max:"1h" doc:"How long stopping may take. What is not finished then is left to the next process."`
	LogLevel        string        `env:"LOG_LEVEL" envDefault:"info" oneof:"trace debug info warn error" doc:"Least level that is logged."`
	LogFormat       string        `env:"LOG_FORMAT" envDefault:"auto" oneof:"auto json console" doc:"auto: console on a terminal, else JSON."`
}
