package api

// parameter is a query parameter that routes take.
type parameter struct {
	name    string
	means   string
	schema  string // of one value, in JSON Schema
	repeats bool   // may be there several times, each with several values split by commas
}

const (
	textSchema   = `{"type":"string"}`
	timeSchema   = `{"oneOf":[{"type":"integer","minimum":0},{"type":"string","format":"date-time"}]}`
	statusSchema = `{"$ref":"#/components/schemas/Status"}`
)

// The parameters.
var (
	limitParam    = &parameter{name: "limit", means: "entries on a page, 1 to 500; default 50", schema: `{"type":"integer","minimum":1,"maximum":500,"default":50}`}
	cursorParam   = &parameter{name: "cursor", means: "`next` of the page before", schema: textSchema}
	customerParam = &parameter{name: "customer", means: "only of this customer", schema: textSchema}
	orderIDParam  = &parameter{name: "orderId", means: "only of this order", schema: textSchema}

	orderStatusParam = &parameter{name: "status", means: "only orders of this status", schema: statusSchema}
	eventStatusParam = &parameter{name: "status", means: "only these statuses: repeat it, or split by commas", schema: statusSchema, repeats: true}
	lastEventParam   = &parameter{name: "after", means: "begin after the event of this number; the header Last-Event-ID goes first", schema: `{"type":"integer","minimum":0}`}

	deadLetterStatusParam = &parameter{name: "status", means: "only `open`, `redriven` or `discarded`", schema: `{"enum":["open","redriven","discarded"]}`}
	errorClassParam       = &parameter{name: "errorClass", means: "only of this error class", schema: textSchema}
	reasonParam           = &parameter{name: "reason", means: "only of this reason", schema: textSchema}
	beforeParam           = &parameter{name: "before", means: "only what failed before this time", schema: timeSchema}
	afterParam            = &parameter{name: "after", means: "only what failed at this time or later", schema: timeSchema}

	openStatusParam = &parameter{name: "status", means: "`open`: others cannot be redriven", schema: `{"const":"open"}`}
	rateParam       = &parameter{name: "rate", means: "how many per `s`, `m` or `h`; default `20/s`", schema: `{"type":"string","pattern":"^[0-9]+/[smh]$","default":"20/s"}`}
	dryRunParam     = &parameter{name: "dryRun", means: "`true`: only count", schema: `{"type":"boolean","default":false}`}
	forceParam      = &parameter{name: "force", means: "`true`: past MAX_REDRIVES too", schema: `{"type":"boolean","default":false}`}

	byParam          = &parameter{name: "by", means: "only what this one did, as `api:<hash of the key>`", schema: textSchema}
	actionParam      = &parameter{name: "action", means: "only this action", schema: textSchema}
	targetParam      = &parameter{name: "target", means: "only what was done to this order, dead letter, redrive or sku", schema: textSchema}
	auditBeforeParam = &parameter{name: "before", means: "only what was done before this time", schema: timeSchema}
	auditAfterParam  = &parameter{name: "after", means: "only what was done at this time or later", schema: timeSchema}

	subscriberParam     = &parameter{name: "subscriber", means: "only of this subscriber, `email` or `push`", schema: textSchema}
	deliveryStatusParam = &parameter{name: "status", means: "only `pending`, `sending`, `sent`, `skipped`, `failed` or `unknown`", schema: `{"enum":["pending","sending","sent","skipped","failed","unknown"]}`}

	fromParam = &parameter{name: "from", means: "begin; default 24 hours before `to`", schema: timeSchema}
	toParam   = &parameter{name: "to", means: "end, itself not included; default now", schema: timeSchema}
	stepParam = &parameter{name: "step", means: "length of one row in whole minutes, as `5m` or `1h`; default one row for all", schema: textSchema}
)
