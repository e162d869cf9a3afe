package orders

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendString appends s as a JSON string. What was decoded is valid UTF-8;
// anything else gets replacement characters.
func appendString(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return append(dst, `""`...)
	}
	return out
}

func appendMember(dst []byte, name, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendString(dst, value)
}

func appendNumber(dst []byte, name string, value int64) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return strconv.AppendInt(dst, value, 10)
}

// appendAsked appends what the customer asked for, without the closing brace.
func (o *Order) appendAsked(dst []byte) []byte {
	dst = append(dst, `{"orderId":`...)
	dst = appendString(dst, o.ID)
	dst = appendMember(dst, "customer", o.Customer)
	dst = appendNumber(dst, "items", o.Items)
	dst = append(dst, `,"total":`...)
	dst = o.Total.append(dst)
	dst = appendNumber(dst, "createdAt", int64(o.CreatedAt))
	dst = appendMember(dst, "currency", string(o.Total.Currency))
	if len(o.Lines) > 0 {
		dst = append(dst, `,"lines":`...)
		dst = o.appendLines(dst)
	}
	if o.Language != "" {
		dst = appendMember(dst, "language", o.Language)
	}
	return dst
}

func (o *Order) appendLines(dst []byte) []byte {
	dst = append(dst, '[')
	for i, l := range o.Lines {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"sku":`...)
		dst = appendString(dst, l.SKU)
		dst = appendNumber(dst, "quantity", l.Quantity)
		dst = append(dst, `,"price":`...)
		dst = Money{l.Price, o.Total.Currency}.append(dst)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// AppendMessage appends the body of the order's queue message: what Decode
// reads, with all defaults filled in.
func (o *Order) AppendMessage(dst []byte) []byte {
	return append(o.appendAsked(dst), '}')
}

// AppendJSON appends the order as the API shows it. History and attempts are
// shown if History is not empty.
func (o *Order) AppendJSON(dst []byte) []byte {
	dst = o.appendAsked(dst)
	dst = appendMember(dst, "status", string(o.Status))
	dst = appendNumber(dst, "updatedAt", int64(o.UpdatedAt))
	dst = appendNumber(dst, "expiresAt", int64(o.ExpiresAt))
	if o.NextAttemptAt != 0 {
		dst = appendNumber(dst, "nextAttemptAt", int64(o.NextAttemptAt))
	}
	if o.Round > 1 {
		dst = appendNumber(dst, "round", int64(o.Round))
	}
	if o.CancelRequested {
		dst = append(dst, `,"cancelRequested":true`...)
	}
	if o.Carrier != "" {
		dst = appendMember(dst, "carrier", o.Carrier)
	}
	if o.TrackingNumber != "" {
		dst = appendMember(dst, "trackingNumber", o.TrackingNumber)
	}
	if len(o.History) > 0 {
		dst = o.appendHistory(dst)
		dst = append(dst, `,"attempts":`...)
		dst = appendRuns(dst, o.Tries)
	}
	return append(dst, '}')
}

func (o *Order) appendHistory(dst []byte) []byte {
	dst = append(dst, `,"history":[`...)
	for i, c := range o.History {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"status":`...)
		dst = appendString(dst, string(c.Status))
		dst = appendNumber(dst, "at", int64(c.At))
		if c.By != "" {
			dst = appendMember(dst, "by", c.By)
		}
		if c.Reason != "" {
			dst = appendMember(dst, "reason", c.Reason)
		}
		if c.Round > 1 {
			dst = appendNumber(dst, "round", int64(c.Round))
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendRuns appends attempts as JSON: in the API's answer and, the same, in
// the store.
func appendRuns(dst []byte, runs []Attempt) []byte {
	dst = append(dst, '[')
	for i := range runs {
		r := &runs[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"step":`...)
		dst = appendString(dst, string(r.Step))
		dst = appendNumber(dst, "round", int64(r.Round))
		dst = appendNumber(dst, "attempt", int64(r.Attempt))
		dst = appendNumber(dst, "startedAt", int64(r.StartedAt))
		dst = appendNumber(dst, "tookMs", r.TookMs)
		dst = appendMember(dst, "outcome", r.Outcome)
		if r.ErrorClass != "" {
			dst = appendMember(dst, "errorClass", r.ErrorClass)
		}
		if r.Error != "" {
			dst = appendMember(dst, "error", r.Error)
		}
		dst = appendMember(dst, "worker", r.Worker)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// AppendBody appends the event's body on KubeMQ and in server-sent events:
// {"orderId","status","customer","amount","timestamp"}.
func (e *Event) AppendBody(dst []byte) []byte {
	dst = append(dst, `{"orderId":`...)
	dst = appendString(dst, e.OrderID)
	dst = appendMember(dst, "status", string(e.Status))
	dst = appendMember(dst, "customer", e.Customer)
	dst = append(dst, `,"amount":`...)
	dst = e.Amount.append(dst)
	dst = appendNumber(dst, "timestamp", int64(e.At))
	return append(dst, '}')
}

// Hash identifies what the order asks for, with defaults filled in: everything
// the customer said except orderId and createdAt. Two requests with one hash
// are the same request.
func (o *Order) Hash() [32]byte {
	dst := make([]byte, 0, 256)
	dst = appendSized(dst, o.Customer)
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.Items))
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.Total.Minor))
	dst = appendSized(dst, string(o.Total.Currency))
	dst = appendSized(dst, o.Language)
	for _, l := range o.Lines {
		dst = appendSized(dst, l.SKU)
		dst = binary.BigEndian.AppendUint64(dst, uint64(l.Quantity))
		dst = binary.BigEndian.AppendUint64(dst, uint64(l.Price))
	}
	return sha256.Sum256(dst)
}

func appendSized(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// keyedHash is what an Idempotency-Key stands for: the hash and the order id
// if the client gave one.
func keyedHash(o *Order) []byte {
	h := o.Hash()
	sum := sha256.Sum256(append(h[:], o.ID...))
	return sum[:]
}

// messageID names a message on the broker by its id and body, so that a
// redelivery is recognised.
func messageID(prefix, id string, body []byte) string {
	h := sha256.New()
	h.Write(appendSized(nil, id))
	h.Write(body)
	return prefix + hex.EncodeToString(h.Sum(nil)[:16])
}
