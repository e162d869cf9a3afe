package orders

// Decode reads an order from JSON.
func Decode(body []byte, strict bool) (Order, error) { return Order{}, errNotBuilt }

// DecodeEventBody reads the body of a status event that another program published.
func DecodeEventBody(body []byte) (Event, error) { return Event{}, errNotBuilt }

// Digits returns the decimals of the currency, and false if it is not an active ISO 4217 code.
func (c Currency) Digits() (int, bool) { return 2, true }

// ParseMoney parses a decimal number exactly.
func ParseMoney(decimal string, cur Currency) (Money, error) { return Money{}, errNotBuilt }

// String returns the amount with the currency's decimals.
func (m Money) String() string { return "" }

// Hash identifies what the order asks for.
func (o *Order) Hash() [32]byte { return [32]byte{} }

// AppendJSON appends the order as the API shows it.
func (o *Order) AppendJSON(dst []byte) []byte { return dst }

// AppendMessage appends the body of the order's queue message.
func (o *Order) AppendMessage(dst []byte) []byte { return dst }

// AppendBody appends the event's body.
func (e *Event) AppendBody(dst []byte) []byte { return dst }
