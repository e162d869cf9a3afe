package kubemq

import "log/slog"

// SlogAdapter lets a slog.Logger take the client's log.
type SlogAdapter struct{ logger *slog.Logger }

// NewSlogAdapter returns an adapter to logger, to slog.Default() if it is nil.
func NewSlogAdapter(logger *slog.Logger) *SlogAdapter {
	if logger == nil {
		logger = slog.Default()
	}
	return &SlogAdapter{logger: logger}
}

// Debug logs msg at level debug.
func (a *SlogAdapter) Debug(msg string, keysAndValues ...any) { a.logger.Debug(msg, keysAndValues...) }

// Info logs msg at level info.
func (a *SlogAdapter) Info(msg string, keysAndValues ...any) { a.logger.Info(msg, keysAndValues...) }

// Warn logs msg at level warn.
func (a *SlogAdapter) Warn(msg string, keysAndValues ...any) { a.logger.Warn(msg, keysAndValues...) }

// Error logs msg at level error.
func (a *SlogAdapter) Error(msg string, keysAndValues ...any) { a.logger.Error(msg, keysAndValues...) }

// silent is the logger of a client that was given none.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
