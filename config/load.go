package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v10"
)

// setting is one environment variable as config.go declares it.
type setting struct {
	group string
	name  string
	tag   reflect.StructTag
	field reflect.Type
}

// settings lists the declarations in reading order, each variable once: where
// it has its meaning.
func settings() []setting {
	var out []setting
	root := reflect.TypeFor[Config]()
	for g := range root.NumField() {
		group := root.Field(g)
		for f := range group.Type.NumField() {
			field := group.Type.Field(f)
			if field.Tag.Get("doc") != "" {
				out = append(out, setting{group.Tag.Get("doc"), field.Tag.Get("env"), field.Tag, field.Type})
			}
		}
	}
	return out
}

func (s *setting) secret() bool { return s.tag.Get("secret") == "true" }

// Load reads the settings from environ, which is in the form of os.Environ. A
// variable that is empty counts as not set. The error names every fault, one a
// line.
func Load(environ []string) (Config, error) {
	var faults []error
	vars := env.ToMap(environ)
	byName := make(map[string]setting)
	for _, s := range settings() {
		byName[s.name] = s
		if s.secret() {
			faults = append(faults, fromFile(vars, s.name))
		}
		if vars[s.name] == "" {
			vars[s.name] = s.tag.Get("envDefault")
		}
	}
	var c Config
	bad := make(map[string]bool)
	root := reflect.ValueOf(&c).Elem()
	for g := range root.NumField() {
		faults = append(faults, parse(root.Field(g), vars, byName, bad)...)
	}
	for _, s := range byName {
		if !bad[s.name] {
			if err := s.check(vars[s.name]); err != nil {
				bad[s.name] = true
				faults = append(faults, s.fault(vars[s.name], err.Error()))
			}
		}
	}
	faults = append(faults, c.cross(bad)...)
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return c, errors.Join(faults...)
}

// fromFile takes a secret from the file that <name>_FILE names.
func fromFile(vars map[string]string, name string) error {
	path := vars[name+"_FILE"]
	if path == "" {
		return nil
	}
	if vars[name] != "" {
		return fmt.Errorf("%s_FILE=%q: must not be set together with %s", name, path, name)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s_FILE: %w", name, err)
	}
	vars[name] = strings.TrimRight(string(b), "\r\n")
	return nil
}

// parse fills one group and translates the library's faults, which name Go
// fields, into ours.
func parse(group reflect.Value, vars map[string]string, byName map[string]setting, bad map[string]bool) []error {
	err := env.ParseWithOptions(group.Addr().Interface(), env.Options{Environment: vars})
	if err == nil {
		return nil
	}
	var all env.AggregateError
	if !errors.As(err, &all) {
		return []error{err}
	}
	var faults []error
	for _, err := range all.Errors {
		var p env.ParseError
		if !errors.As(err, &p) {
			faults = append(faults, err)
			continue
		}
		field, _ := group.Type().FieldByName(p.Name)
		name := field.Tag.Get("env")
		if !bad[name] { // a variable may be in several groups
			bad[name] = true
			s := byName[name]
			faults = append(faults, s.fault(vars[name], "must be "+s.allowed()))
		}
	}
	return faults
}

func (s *setting) fault(value, text string) error {
	if s.secret() {
		return fmt.Errorf("%s: %s", s.name, text) // the value stays out of logs
	}
	return fmt.Errorf("%s=%q: %s", s.name, value, text)
}

// allowed says in words what a value may be.
func (s *setting) allowed() string {
	least, most := s.tag.Get("min"), s.tag.Get("max")
	switch {
	case s.tag.Get("oneof") != "":
		return "one of " + strings.ReplaceAll(s.tag.Get("oneof"), " ", ", ")
	case s.field == reflect.TypeFor[time.Duration]():
		return fmt.Sprintf("a duration such as 1500ms or 5m, from %s to %s", least, most)
	case s.field.Kind() == reflect.Bool:
		return "true or false"
	case least != "":
		return fmt.Sprintf("a whole number from %s to %s", least, most)
	}
	return rules[s.tag.Get("check")].allowed
}

func (s *setting) check(value string) error {
	broken := fmt.Errorf("must be %s", s.allowed())
	switch {
	case s.tag.Get("oneof") != "":
		if !slices.Contains(strings.Fields(s.tag.Get("oneof")), value) {
			return broken
		}
	case s.field == reflect.TypeFor[time.Duration]():
		d, _ := time.ParseDuration(value)
		least, _ := time.ParseDuration(s.tag.Get("min"))
		most, _ := time.ParseDuration(s.tag.Get("max"))
		if d < least || d > most {
			return broken
		}
	case s.tag.Get("min") != "":
		n, _ := strconv.ParseInt(value, 10, 64)
		least, _ := strconv.ParseInt(s.tag.Get("min"), 10, 64)
		most, _ := strconv.ParseInt(s.tag.Get("max"), 10, 64)
		if n < least || n > most {
			return broken
		}
	case s.tag.Get("check") != "":
		if r := rules[s.tag.Get("check")]; !r.ok(value) {
			return broken
		}
	}
	return nil
}

// rule is what a value has to be beyond its type.
type rule struct {
	allowed string
	ok      func(string) bool
}

var rules = map[string]rule{
	"address":      {"an address to listen on such as :8080 or 127.0.0.1:8080", listenable},
	"addressOrOff": {"an address to listen on such as 127.0.0.1:50000, or off", func(s string) bool { return s == "off" || listenable(s) }},
	"hostport":     {"host:port with a port from 1 to 65535, or empty", func(s string) bool { return s == "" || reachable(s) }},
	"postgres":     {"empty or postgres://user:password@host:port/database", postgres},
	"http":         {"empty, http://… or https://…", webAddress},
	"smtp":         {"empty or smtp://[user:password@]host:port[?tls=starttls|implicit|none]", smtpAddress},
	"mail":         {"a mail address", mailAddress},
	"channel":      {"1 to 200 of the characters A-Z a-z 0-9 . _ -, without a dot at its ends or two in a row", channel},
	"statuses":     {"a list of created, processing, confirmed, shipped, delivered, failed, expired, cancelled", statuses},
	"needed":       {"something: it must not be empty", func(s string) bool { return s != "" }},
}

func listenable(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func reachable(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func postgres(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

func webAddress(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func smtpAddress(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "smtp" || !reachable(u.Host) {
		return false
	}
	switch u.Query().Get("tls") {
	case "", "starttls", "implicit", "none":
		return true
	}
	return false
}

func mailAddress(s string) bool {
	_, err := mail.ParseAddress(s)
	return err == nil
}

// channel is what every KubeMQ server takes: see its errors 102, 107, 108, 119.
func channel(s string) bool {
	if s == "" || len(s) > 200 || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") || strings.Contains(s, "..") {
		return false
	}
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

func statuses(s string) bool {
	if s == "" {
		return true
	}
	for word := range strings.SplitSeq(s, ",") {
		if !slices.Contains([]string{"created", "processing", "confirmed", "shipped", "delivered", "failed", "expired", "cancelled"}, word) {
			return false
		}
	}
	return true
}

// cross checks what only several settings together can break. A setting that
// has a fault already is left alone.
func (c *Config) cross(bad map[string]bool) []error {
	var faults []error
	add := func(broken bool, text string, names ...string) {
		if broken && !slices.ContainsFunc(names, func(n string) bool { return bad[n] }) {
			faults = append(faults, errors.New(text))
		}
	}
	add(c.Workers.StepTimeout > c.Workers.Visibility,
		fmt.Sprintf("STEP_TIMEOUT=%q: must not be above VISIBILITY, which is %s", c.Workers.StepTimeout, c.Workers.Visibility), "STEP_TIMEOUT", "VISIBILITY")
	add(c.Workers.RetryCap < c.Workers.RetryBase,
		fmt.Sprintf("RETRY_CAP=%q: must not be below RETRY_BASE, which is %s", c.Workers.RetryCap, c.Workers.RetryBase), "RETRY_CAP", "RETRY_BASE")
	add((c.KubeMQ.TLSCert == "") != (c.KubeMQ.TLSKey == ""), "KUBEMQ_TLS_CERT, KUBEMQ_TLS_KEY: need each other")
	add(c.KubeMQ.TLSCert != "" && c.KubeMQ.TLSCA == "", "KUBEMQ_TLS_CA: is needed with KUBEMQ_TLS_CERT")
	queues := []string{c.Queue.OrdersChannel, c.Queue.RetryChannel, c.Queue.DLQChannel}
	slices.Sort(queues)
	add(len(slices.Compact(queues)) != 3, "ORDERS_CHANNEL, RETRY_CHANNEL, DLQ_CHANNEL: must be three different channels",
		"ORDERS_CHANNEL", "RETRY_CHANNEL", "DLQ_CHANNEL")
	return faults
}
