package orders

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The limits of what an order may say.
const (
	maxCustomerChars = 254 // of an address in RFC 5321
	maxItems         = 1_000_000_000
	maxLines         = 1_000
	maxLanguageBytes = 35 // the longest tag RFC 5646 expects
	maxCreatedAt     = 253_402_300_799_999
)

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// decoder reads one JSON object, member by member, and keeps the first fault
// of a member while it looks for worse: text that is not JSON at all.
type decoder struct {
	json  jsontext.Decoder
	in    bytes.Reader
	fault *Error
}

// Decode reads an order from JSON: {"orderId"?,"customer","items","total",
// "createdAt"?} and optionally "currency", "lines", "language". ID is empty and
// CreatedAt is 0 if the text has none; null stands for an absent member.
// Unknown members are an error if strict, and are ignored otherwise.
//
// The error is an *Error: KindBadRequest if body is not JSON (invalid UTF-8
// and lone surrogates included), KindInvalid otherwise, with the member in Field.
func Decode(body []byte, strict bool) (Order, error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	var p parsedOrder
	err := d.object(body, func(name string, v jsontext.Value) { p.member(d, name, v, strict) })
	if err != nil {
		return Order{}, err
	}
	o := p.order(d)
	if d.fault != nil {
		return Order{}, d.fault
	}
	return o, nil
}

func (d *decoder) release() {
	d.in.Reset(nil)
	d.fault = nil
	decoders.Put(d)
}

// object calls member for each member of the object that body consists of.
func (d *decoder) object(body []byte, member func(name string, v jsontext.Value)) error {
	d.in.Reset(body)
	d.json.Reset(&d.in)
	if kind := d.json.PeekKind(); kind != '{' {
		if _, err := d.json.ReadValue(); err != nil {
			return badJSON(err)
		}
		return errorf(KindInvalid, "", "must be a JSON object")
	}
	if _, err := d.json.ReadToken(); err != nil {
		return badJSON(err)
	}
	for d.json.PeekKind() != '}' {
		name, err := d.json.ReadToken()
		if err != nil {
			return badJSON(err)
		}
		key := name.String()
		v, err := d.json.ReadValue()
		if err != nil {
			return badJSON(err)
		}
		member(key, v)
	}
	if _, err := d.json.ReadToken(); err != nil {
		return badJSON(err)
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return errorf(KindBadRequest, "", "there is more after the JSON object")
	}
	return nil
}

func badJSON(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		e := errorf(KindInvalid, "", "a member is there twice")
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			e.Field = syntax.JSONPointer.LastToken()
		}
		return e
	}
	e := errorf(KindBadRequest, "", "the body is not valid JSON")
	e.Err = err
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		e.Msg += " at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	}
	return e
}

// fail notes the first fault.
func (d *decoder) fail(field, format string, args ...any) {
	if d.fault == nil {
		d.fault = errorf(KindInvalid, field, format, args...)
	}
}

func (d *decoder) text(field string, v jsontext.Value) string {
	if v.Kind() != '"' {
		d.fail(field, "must be a string")
		return ""
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil { // the decoder has checked it already
		d.fail(field, "must be a string")
	}
	return string(b)
}

// integer reads a whole number without fraction or exponent.
func (d *decoder) integer(field string, v jsontext.Value, least, most int64) int64 {
	if v.Kind() != '0' {
		d.fail(field, "must be an integer")
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (n < least || n > most):
		d.fail(field, "must be from %d to %d", least, most)
	case err != nil:
		d.fail(field, "must be an integer without fraction or exponent")
	}
	return n
}

func (d *decoder) number(field string, v jsontext.Value) string {
	if v.Kind() != '0' {
		d.fail(field, "must be a number")
		return ""
	}
	return string(v)
}

func (d *decoder) money(field, decimal string, cur Currency) int64 {
	m, err := ParseMoney(decimal, cur)
	if err != nil {
		var e *Error
		errors.As(err, &e)
		d.fail(field, "%s", e.Msg)
	}
	return m.Minor
}

// parsedOrder is an order's members before the currency is known.
type parsedOrder struct {
	Order
	total    string // empty: absent
	hasItems bool
	hasLines bool
	prices   []string
}

func (p *parsedOrder) member(d *decoder, name string, v jsontext.Value, strict bool) {
	if v.Kind() == 'n' && name != "" {
		switch name {
		case "orderId", "customer", "items", "total", "createdAt", "currency", "lines", "language":
			return
		}
	}
	switch name {
	case "orderId":
		p.ID = d.text(name, v)
		if v.Kind() == '"' && !ValidID(p.ID) {
			d.fail(name, "must be 1 to %d of the characters A-Z a-z 0-9 . _ : ~ -", maxIDBytes)
		}
	case "customer":
		p.Customer = d.text(name, v)
		if v.Kind() == '"' {
			checkCustomer(d, p.Customer)
		}
	case "items":
		p.Items = d.integer(name, v, 1, maxItems)
		p.hasItems = true
	case "total":
		p.total = d.number(name, v)
	case "createdAt":
		p.CreatedAt = Millis(d.integer(name, v, 1, maxCreatedAt))
	case "currency":
		p.Total.Currency = Currency(d.text(name, v))
		if _, ok := p.Total.Currency.Digits(); !ok {
			d.fail(name, "must be an active ISO 4217 code in capitals")
		}
	case "lines":
		p.lines(d, v)
	case "language":
		p.Language = d.text(name, v)
		if !validLanguage(p.Language) {
			d.fail(name, "must be a language tag such as en or pt-BR")
		}
	default:
		if strict {
			d.fail(name, "is not a member of an order")
		}
	}
}

func checkCustomer(d *decoder, s string) {
	switch n := utf8.RuneCountInString(s); {
	case n == 0:
		d.fail("customer", "must not be empty")
	case n > maxCustomerChars:
		d.fail("customer", "must have at most %d characters", maxCustomerChars)
	}
	for _, r := range s {
		// U+2028 and U+2029 end a line in logs and mails as well as controls do.
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			d.fail("customer", "must not hold control characters")
			return
		}
	}
}

// validLanguage takes the shape of RFC 5646 without its registry.
func validLanguage(s string) bool {
	if len(s) < 2 || len(s) > maxLanguageBytes {
		return false
	}
	part := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9' && i > 1:
			if part++; part > 8 {
				return false
			}
		case c == '-' && part > 0 && i > 1 && i < len(s)-1:
			part = 0
		default:
			return false
		}
	}
	return true
}

// lines reads the array of an order's lines with a decoder of its own, since
// d.json is inside the object.
func (p *parsedOrder) lines(d *decoder, v jsontext.Value) {
	p.hasLines = true
	if v.Kind() != '[' {
		d.fail("lines", "must be an array")
		return
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	_, _ = dec.ReadToken() // the array was checked as a value
	for dec.PeekKind() != ']' {
		if len(p.Lines) == maxLines {
			d.fail("lines", "must have at most %d elements", maxLines)
			return
		}
		field := "lines[" + strconv.Itoa(len(p.Lines)) + "]"
		if dec.PeekKind() != '{' {
			d.fail(field, "must be an object")
			return
		}
		p.line(d, dec, field)
	}
	if len(p.Lines) == 0 {
		d.fail("lines", "must not be empty")
	}
}

func (p *parsedOrder) line(d *decoder, dec *jsontext.Decoder, field string) {
	var l Line
	var price string
	_, _ = dec.ReadToken()
	for dec.PeekKind() != '}' {
		name, _ := dec.ReadToken()
		key := name.String()
		v, _ := dec.ReadValue()
		switch key {
		case "sku":
			if l.SKU = d.text(field+".sku", v); !ValidID(l.SKU) {
				d.fail(field+".sku", "must be 1 to %d of the characters A-Z a-z 0-9 . _ : ~ -", maxIDBytes)
			}
		case "quantity":
			l.Quantity = d.integer(field+".quantity", v, 1, maxItems)
		case "price":
			price = d.number(field+".price", v)
		default:
			d.fail(field+"."+key, "is not a member of a line")
		}
	}
	_, _ = dec.ReadToken()
	switch {
	case l.SKU == "":
		d.fail(field+".sku", "is missing")
	case l.Quantity == 0:
		d.fail(field+".quantity", "is missing")
	case price == "":
		d.fail(field+".price", "is missing")
	}
	p.Lines = append(p.Lines, l)
	p.prices = append(p.prices, price)
}

// order checks what only the whole object can tell.
func (p *parsedOrder) order(d *decoder) Order {
	o := &p.Order
	if o.Total.Currency == "" {
		o.Total.Currency = DefaultCurrency
	}
	if d.fault != nil {
		return *o
	}
	if o.Customer == "" {
		d.fail("customer", "is missing")
	}
	if p.hasLines {
		p.sum(d)
		return *o
	}
	if !p.hasItems {
		d.fail("items", "is missing")
	}
	if p.total == "" {
		d.fail("total", "is missing")
	} else {
		o.Total.Minor = d.money("total", p.total, o.Total.Currency)
	}
	return *o
}

// sum fills in items and total from the lines, or checks them against these.
func (p *parsedOrder) sum(d *decoder) {
	o := &p.Order
	var items, total int64
	for i := range o.Lines {
		l := &o.Lines[i]
		l.Price = d.money("lines["+strconv.Itoa(i)+"].price", p.prices[i], o.Total.Currency)
		if l.Price != 0 && l.Quantity > (math.MaxInt64-total)/l.Price {
			d.fail("lines", "come to more than can be counted")
			return
		}
		total += l.Quantity * l.Price
		items += l.Quantity
	}
	if items > maxItems {
		d.fail("lines", "must have at most %d pieces", maxItems)
	}
	if p.hasItems && o.Items != items {
		d.fail("items", "must be the sum of the lines' quantities, %d", items)
	}
	if p.total != "" && d.money("total", p.total, o.Total.Currency) != total {
		d.fail("total", "must be the sum of the lines, %s", Money{total, o.Total.Currency})
	}
	o.Items, o.Total.Minor = items, total
}

// DecodeEventBody reads the body of a status event that another program
// published: {"orderId","status","customer"?,"amount"?,"timestamp"?}, unknown
// members ignored. Status is not checked against the statuses known here, and
// the amount is taken to be in DefaultCurrency and 0 if it has more decimals.
func DecodeEventBody(body []byte) (Event, error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	e := Event{Amount: Money{Currency: DefaultCurrency}, Round: 1}
	err := d.object(body, func(name string, v jsontext.Value) {
		switch {
		case name == "orderId":
			e.OrderID = d.text(name, v)
		case name == "status":
			e.Status = Status(d.text(name, v))
		case name == "customer" && v.Kind() == '"':
			e.Customer = d.text(name, v)
			checkCustomer(d, e.Customer)
		case name == "amount" && v.Kind() == '0':
			e.Amount, _ = ParseMoney(string(v), DefaultCurrency)
		case name == "timestamp" && v.Kind() == '0':
			n, _ := strconv.ParseInt(string(v), 10, 64)
			e.At = Millis(n)
		}
	})
	if err != nil {
		return Event{}, err
	}
	if !ValidID(e.OrderID) {
		d.fail("orderId", "must be 1 to %d of the characters A-Z a-z 0-9 . _ : ~ -", maxIDBytes)
	}
	if !ValidID(string(e.Status)) {
		d.fail("status", "must be a word")
	}
	if d.fault != nil {
		return Event{}, d.fault
	}
	return e, nil
}
