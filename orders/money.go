package orders

import (
	"math"
	"strconv"
	"strings"
)

// Currency is an ISO 4217 alphabetic code.
type Currency string

// DefaultCurrency is what an order that names none is in.
const DefaultCurrency Currency = "USD"

// The active alphabetic codes of ISO 4217 by their number of decimals. Funds,
// metals and test codes are left out: nobody pays an order with them.
var currenciesByDigits = map[int]string{
	0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
	2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD " +
		"CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD " +
		"GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD " +
		"MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP " +
		"PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS " +
		"TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
	3: "BHD IQD JOD KWD LYD OMR TND",
}

var currencyDigits = func() map[Currency]int {
	m := make(map[Currency]int)
	for digits, codes := range currenciesByDigits {
		for code := range strings.FieldsSeq(codes) {
			m[Currency(code)] = digits
		}
	}
	return m
}()

// Digits returns the decimals of the currency, and false if it is not an
// active ISO 4217 code.
func (c Currency) Digits() (int, bool) {
	d, ok := currencyDigits[c]
	return d, ok
}

// Money is an amount in minor units of its currency. The store keeps amounts
// from 0 to 2^63-1.
type Money struct {
	Minor    int64
	Currency Currency
}

// String returns the amount with the currency's decimals, as in 149.97: a
// valid JSON number.
func (m Money) String() string { return string(m.append(nil)) }

func (m Money) append(dst []byte) []byte {
	digits, ok := m.Currency.Digits()
	if !ok {
		digits = 2
	}
	if m.Minor < 0 {
		dst = append(dst, '-')
	}
	minor := strconv.FormatUint(magnitude(m.Minor), 10)
	if pad := digits + 1 - len(minor); pad > 0 {
		minor = "0000"[:pad] + minor
	}
	dst = append(dst, minor[:len(minor)-digits]...)
	if digits == 0 {
		return dst
	}
	dst = append(dst, '.')
	return append(dst, minor[len(minor)-digits:]...)
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// maxNumberBytes bounds the text of a JSON number that is looked at: more
// digits than any amount needs.
const maxNumberBytes = 64

// ParseMoney parses a decimal number in JSON's notation exactly. It refuses, as
// an *Error of KindInvalid without a field, what is negative (minus zero too),
// has more decimals than the currency, or is more than 2^63-1 minor units.
func ParseMoney(decimal string, cur Currency) (Money, error) {
	digits, ok := cur.Digits()
	if !ok {
		return Money{}, errorf(KindInvalid, "", "unknown currency")
	}
	if strings.HasPrefix(decimal, "-") {
		return Money{}, errorf(KindInvalid, "", "must not be negative")
	}
	if len(decimal) > maxNumberBytes {
		return Money{}, errorf(KindInvalid, "", "has too many digits")
	}
	mantissa, exponent, ok := splitNumber(decimal)
	if !ok {
		return Money{}, errorf(KindInvalid, "", "must be a decimal number")
	}
	if mantissa == "" { // zero, whatever the exponent
		return Money{Currency: cur}, nil
	}
	shift := exponent + digits // the amount is mantissa * 10^shift minor units
	if shift < 0 {
		return Money{}, errorf(KindInvalid, "", "has more than %d decimals, which %s does not have", digits, cur)
	}
	minor, err := strconv.ParseInt(mantissa, 10, 64)
	for ; err == nil && shift > 0; shift-- {
		if minor > math.MaxInt64/10 {
			err = strconv.ErrRange
		}
		minor *= 10
	}
	if err != nil {
		return Money{}, errorf(KindInvalid, "", "is too large")
	}
	return Money{Minor: minor, Currency: cur}, nil
}

// splitNumber takes a non-negative JSON number apart: mantissa * 10^exponent,
// the mantissa without zeros at either end.
func splitNumber(s string) (mantissa string, exponent int, ok bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > 1000 || e < -1000 {
			return "", 0, false
		}
		s, exponent = s[:i], e
	}
	whole, fraction, _ := strings.Cut(s, ".")
	exponent -= len(fraction)
	mantissa = whole + fraction
	if mantissa == "" || strings.Trim(mantissa, "0123456789") != "" {
		return "", 0, false
	}
	mantissa = strings.TrimLeft(mantissa, "0")
	trimmed := strings.TrimRight(mantissa, "0")
	return trimmed, exponent + len(mantissa) - len(trimmed), true
}
