package orders

// Currency is an ISO 4217 alphabetic code.
type Currency string

// DefaultCurrency is what an order that names none is in.
const DefaultCurrency Currency = "USD"

// Money is an amount in minor units of its currency. The store keeps amounts
// from 0 to 2^63-1.
type Money struct {
	Minor    int64
	Currency Currency
}
