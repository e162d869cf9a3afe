package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"orderd/orders"
)

// keyring is the API keys' hashes. Comparing hashes takes the same time whatever
// a wrong key looks like, and for any length of it.
type keyring []apiKey

type apiKey struct {
	hash [sha256.Size]byte
	by   string // what history shows: api:<first 8 hex digits of the hash>
}

func newKeyring(keys []string) keyring {
	var ring keyring
	for _, k := range keys {
		if k == "" {
			continue // or everybody without a key would be let in
		}
		h := sha256.Sum256([]byte(k))
		ring = append(ring, apiKey{hash: h, by: "api:" + hex.EncodeToString(h[:4])})
	}
	return ring
}

// match returns the name of the key that was given.
func (ring keyring) match(given string) (by string, ok bool) {
	h := sha256.Sum256([]byte(given))
	for i := range ring {
		if subtle.ConstantTimeCompare(h[:], ring[i].hash[:]) == 1 {
			by, ok = ring[i].by, true
		}
	}
	return by, ok
}

// admit decides whether the request may go on, and who it is from.
func (s *Server) admit(x *exchange, r *http.Request) error {
	x.by = "api"
	// Without keys it is the browser that has to be kept from acting for pages of
	// other sites: orderd on a laptop is reachable for all of them.
	if err := s.origins.Check(r); err != nil {
		return &orders.Error{Kind: orders.KindForbidden, Msg: "Requests from pages of other sites are refused.", Err: err}
	}
	if len(s.keys) == 0 || x.route.open {
		return nil
	}
	given, ok := presentedKey(r.Header)
	if !ok {
		return fault(orders.KindUnauthorized, "", "An API key is needed: Authorization: Bearer <key>, or X-API-Key: <key>.")
	}
	by, ok := s.keys.match(given)
	if !ok {
		return fault(orders.KindUnauthorized, "", "This API key is not known.")
	}
	x.by = by
	return nil
}

func presentedKey(h http.Header) (string, bool) {
	if k := h.Get("X-API-Key"); k != "" {
		return k, true
	}
	scheme, key, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	key = strings.TrimSpace(key)
	return key, key != ""
}
