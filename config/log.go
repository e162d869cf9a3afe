package config

import (
	"os"

	"github.com/rs/zerolog"
)

// Logger returns the logger that the settings ask for, writing to f. Settings
// that were refused give one for the message about them.
func (r Run) Logger(f *os.File) zerolog.Logger {
	level, err := zerolog.ParseLevel(r.LogLevel)
	if err != nil || level == zerolog.NoLevel {
		level = zerolog.InfoLevel
	}
	console := r.LogFormat == "console"
	if r.LogFormat == "auto" {
		info, err := f.Stat()
		console = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if console {
		return zerolog.New(zerolog.ConsoleWriter{Out: f, TimeFormat: "15:04:05.000"}).Level(level).With().Timestamp().Logger()
	}
	return zerolog.New(f).Level(level).With().Timestamp().Logger()
}
