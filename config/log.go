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
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" // the library's default has no milliseconds
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	if r.LogFormat == "console" || r.LogFormat == "auto" && terminal {
		return zerolog.New(zerolog.ConsoleWriter{Out: f, TimeFormat: "15:04:05.000", NoColor: !terminal}).Level(level).With().Timestamp().Logger()
	}
	return zerolog.New(f).Level(level).With().Timestamp().Logger()
}
