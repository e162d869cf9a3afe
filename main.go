// Command orderd is an order pipeline on KubeMQ in one binary. Run without
// arguments it starts everything; README.md says what that is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"orderd/api"
	"orderd/config"
)

// version is set by the linker, see Makefile.
var version = "dev"

// Exit codes.
const (
	exitFault    = 1 // something went wrong while running
	exitSettings = 2 // the settings, or what they name, cannot be used
)

func main() { os.Exit(run(os.Args[1:], os.Environ())) }

func run(args, environ []string) int {
	flags := flag.NewFlagSet("orderd", flag.ContinueOnError)
	showVersion := flags.Bool("version", false, "print the version")
	healthcheck := flags.Bool("healthcheck", false, "ask the orderd at HTTP_ADDR whether it is ready, and exit with 0 if so")
	flags.Usage = func() { usage(flags) }
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return exitSettings
	}
	if *showVersion {
		fmt.Println("orderd", version)
		return 0
	}
	cfg, err := config.Load(environ)
	log := cfg.Run.Logger(os.Stderr)
	if flags.NArg() > 0 {
		err = errors.Join(err, fmt.Errorf("there are no arguments such as %q: all settings are environment variables", flags.Arg(0)))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "orderd: settings cannot be used (orderd -h lists them):\n%v\n", err)
		return exitSettings
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *healthcheck {
		return exitCode(log, "not ready", health(ctx, cfg.HTTP.Addr))
	}
	// A second signal ends the process at once: nothing is lost by that either.
	context.AfterFunc(ctx, stop)
	return exitCode(log, "orderd failed", start(ctx, cfg, log))
}

func usage(flags *flag.FlagSet) {
	out := os.Stdout
	fmt.Fprintln(out, "orderd is an order pipeline on KubeMQ. Without arguments it runs until it is told to stop.")
	fmt.Fprintln(out, "\nFlags")
	flags.SetOutput(out)
	flags.PrintDefaults()
	fmt.Fprintln(out, "\nSettings are environment variables. What follows = is the default.")
	if err := config.Usage(out); err != nil {
		fmt.Fprintln(os.Stderr, "orderd:", err)
	}
}

func health(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return api.Healthcheck(ctx, addr)
}

func exitCode(log zerolog.Logger, what string, err error) int {
	var s *settingsError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		log.Error().Err(err).Msg(what)
		return exitSettings
	}
	log.Error().Err(err).Msg(what)
	return exitFault
}

// settingsError is a fault that other settings would cure.
type settingsError struct{ err error }

func (e *settingsError) Error() string { return e.err.Error() }
func (e *settingsError) Unwrap() error { return e.err }
