package broker

import (
	"strings"
	"unicode"
	"unicode/utf8"

	pb "github.com/kubemq-io/protobuf/go"
)

// KubeMQ's limits.
const (
	maxSeconds         = 43_200 // of expiration and delay
	maxReceiveCount    = 1_024
	maxReceiveMessages = 1_024
	maxWaitSeconds     = 3_600
	maxNameRunes       = 200
)

// storableName says whether a queue or a channel of kept events can have this
// name. A KubeMQ server answers some of the others with silence, or only when it
// tries to make a folder.
func storableName(name string) bool {
	if name == "" || utf8.RuneCountInString(name) > maxNameRunes || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r == '*' || r == '>' || r == '/' || r == '\\' || badRune(r)
	})
}

func badRune(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
}

func checkQueue(clientID, queue string) error {
	switch {
	case clientID == "":
		return errNoClientID
	case !storableName(queue):
		return errQueueName
	}
	return nil
}

func checkQueueMessage(m *pb.QueueMessage) error {
	if err := checkQueue(m.GetClientID(), m.GetChannel()); err != nil {
		return err
	}
	p := m.GetPolicy()
	switch {
	case m.GetMetadata() == "" && len(m.GetBody()) == 0:
		return errNoContent
	case p.GetExpirationSeconds() < 0 || p.GetExpirationSeconds() > maxSeconds:
		return errExpiration
	case p.GetDelaySeconds() < 0 || p.GetDelaySeconds() > maxSeconds:
		return errDelay
	case p.GetMaxReceiveCount() < 0 || p.GetMaxReceiveCount() > maxReceiveCount:
		return errMaxReceiveCount
	case p.GetMaxReceiveQueue() != "" && !storableName(p.GetMaxReceiveQueue()):
		return errQueueName
	}
	return nil
}

func checkReceive(r *pb.ReceiveQueueMessagesRequest) error {
	if err := checkQueue(r.GetClientID(), r.GetChannel()); err != nil {
		return err
	}
	if r.GetMaxNumberOfMessages() < 1 || r.GetMaxNumberOfMessages() > maxReceiveMessages {
		return errMaxMessages
	}
	return checkWaitSeconds(r.GetWaitTimeSeconds())
}

func checkWaitSeconds(n int32) error {
	if n < 0 || n > maxWaitSeconds {
		return errWaitTimeout
	}
	return nil
}

// checkChannel checks the name of a channel of events. Plain events are not
// stored, so more names are possible; a pattern may have wildcards.
func checkChannel(name string, stored, pattern bool) error {
	switch {
	case name == "":
		return errNoChannel
	case !pattern && strings.ContainsAny(name, "*>"):
		return errWildcards
	case strings.ContainsFunc(name, badRune):
		return errWhitespace
	case strings.HasSuffix(name, "."):
		return errTrailingDot
	case utf8.RuneCountInString(name) > maxNameRunes, strings.HasPrefix(name, "."), strings.Contains(name, ".."), stored && !storableName(name):
		return errQueueName
	}
	return nil
}

func checkEvent(ev *pb.Event) error {
	if ev.GetClientID() == "" {
		return errNoClientID
	}
	if err := checkChannel(ev.GetChannel(), ev.GetStore(), false); err != nil {
		return err
	}
	if ev.GetMetadata() == "" && len(ev.GetBody()) == 0 {
		return errNoContent
	}
	return nil
}

// The values of two enums of the contract.
const (
	subscribeEvents      = 1
	subscribeEventsStore = 2

	startNewOnly     = 1
	startFromFirst   = 2
	startFromLast    = 3
	startAtSequence  = 4
	startAtTime      = 5
	startAtTimeDelta = 6
)

func checkSubscribe(r *pb.Subscribe) error {
	stored := r.GetSubscribeTypeData() == subscribeEventsStore
	if !stored && r.GetSubscribeTypeData() != subscribeEvents {
		return errSubscriptionType
	}
	if r.GetClientID() == "" {
		return errNoClientID
	}
	if err := checkChannel(r.GetChannel(), stored, !stored); err != nil {
		return err
	}
	if !stored {
		if r.GetEventsStoreTypeData() != 0 || r.GetEventsStoreTypeValue() != 0 {
			return errNotEventsStore
		}
		return nil
	}
	switch value := r.GetEventsStoreTypeValue(); r.GetEventsStoreTypeData() {
	case startNewOnly, startFromFirst, startFromLast:
	case startAtSequence:
		if value <= 0 {
			return errStartSequence
		}
	case startAtTime:
		if value <= 0 {
			return errStartTime
		}
	case startAtTimeDelta:
		if value <= 0 {
			return errStartDelta
		}
	default:
		return errStartType
	}
	return nil
}
