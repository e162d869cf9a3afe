package protobuf_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// messages is the contract as it was measured, one line a message: number, name
// and type of each field. Types: s string, b bytes, B bool, i int32, I int64,
// U uint64, M map<string,string>, E enum, a name for a message, [] repeated.
var messages = map[string]string{
	"Empty":                        "",
	"PingResult":                   "1 Host s, 2 Version s, 3 ServerStartTime I, 4 ServerUpTimeSeconds I",
	"Result":                       "1 EventID s, 2 Sent B, 3 Error s",
	"Event":                        "1 EventID s, 2 ClientID s, 3 Channel s, 4 Metadata s, 5 Body b, 6 Store B, 7 Tags M",
	"EventReceive":                 "1 EventID s, 2 Channel s, 3 Metadata s, 4 Body b, 5 Timestamp I, 6 Sequence U, 7 Tags M",
	"Subscribe":                    "1 SubscribeTypeData E, 2 ClientID s, 3 Channel s, 4 Group s, 5 EventsStoreTypeData E, 6 EventsStoreTypeValue I",
	"Request":                      "1 RequestID s, 2 RequestTypeData E, 3 ClientID s, 4 Channel s, 5 Metadata s, 6 Body b, 7 ReplyChannel s, 8 Timeout i, 9 CacheKey s, 10 CacheTTL i, 11 Span b, 12 Tags M",
	"Response":                     "1 ClientID s, 2 RequestID s, 3 ReplyChannel s, 4 Metadata s, 5 Body b, 6 CacheHit B, 7 Timestamp I, 8 Executed B, 9 Error s, 10 Span b, 11 Tags M",
	"QueueMessage":                 "1 MessageID s, 2 ClientID s, 3 Channel s, 4 Metadata s, 5 Body b, 6 Tags M, 7 Attributes QueueMessageAttributes, 8 Policy QueueMessagePolicy, 9 Topic s, 10 Partition i, 11 PartitionKey s",
	"QueueMessageAttributes":       "1 Timestamp I, 2 Sequence U, 3 MD5OfBody s, 4 ReceiveCount i, 5 ReRouted B, 6 ReRoutedFromQueue s, 7 ExpirationAt I, 8 DelayedTo I",
	"QueueMessagePolicy":           "1 ExpirationSeconds i, 2 DelaySeconds i, 3 MaxReceiveCount i, 4 MaxReceiveQueue s",
	"SendQueueMessageResult":       "1 MessageID s, 2 SentAt I, 3 ExpirationAt I, 4 DelayedTo I, 5 IsError B, 6 Error s, 7 RefChannel s, 8 RefTopic s, 9 RefPartition i, 10 RefHash s",
	"QueueMessagesBatchRequest":    "1 BatchID s, 2 Messages []QueueMessage",
	"QueueMessagesBatchResponse":   "1 BatchID s, 2 Results []SendQueueMessageResult, 3 HaveErrors B",
	"ReceiveQueueMessagesRequest":  "1 RequestID s, 2 ClientID s, 3 Channel s, 4 MaxNumberOfMessages i, 5 WaitTimeSeconds i, 6 IsPeak B",
	"ReceiveQueueMessagesResponse": "1 RequestID s, 2 Messages []QueueMessage, 3 MessagesReceived i, 4 MessagesExpired i, 5 IsPeak B, 6 IsError B, 7 Error s",
	"AckAllQueueMessagesRequest":   "1 RequestID s, 2 ClientID s, 3 Channel s, 4 WaitTimeSeconds i",
	"AckAllQueueMessagesResponse":  "1 RequestID s, 2 AffectedMessages U, 3 IsError B, 4 Error s",
	"StreamQueueMessagesRequest":   "1 RequestID s, 2 ClientID s, 3 StreamRequestTypeData E, 4 Channel s, 5 VisibilitySeconds i, 6 WaitTimeSeconds i, 7 RefSequence U, 8 ModifiedMessage QueueMessage",
	"StreamQueueMessagesResponse":  "1 RequestID s, 2 StreamRequestTypeData E, 3 Message QueueMessage, 4 IsError B, 5 Error s",
	"QueuesUpstreamRequest":        "1 RequestID s, 2 Messages []QueueMessage",
	"QueuesUpstreamResponse":       "1 RefRequestID s, 2 Results []SendQueueMessageResult, 3 IsError B, 4 Error s",
	"QueuesDownstreamRequest":      "1 RequestID s, 2 ClientID s, 3 RequestTypeData E, 4 Channel s, 5 MaxItems i, 6 WaitTimeout i, 7 AutoAck B, 8 ReQueueChannel s, 9 SequenceRange []I, 10 RefTransactionId s, 12 Metadata M",
	"QueuesDownstreamResponse":     "1 TransactionId s, 2 RefRequestId s, 3 RequestTypeData E, 4 Messages []QueueMessage, 5 ActiveOffsets []I, 6 IsError B, 7 Error s, 8 TransactionComplete B, 9 Metadata M",
}

func TestContract_Messages(t *testing.T) {
	t.Parallel()
	described := pb.File_kubemq_proto.Messages()
	if got, want := described.Len(), len(messages); got != want {
		t.Errorf("messages: got %d, want %d", got, want)
	}
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		message := described.ByName(protoreflect.Name(name))
		if message == nil {
			t.Errorf("%s: not in the contract", name)
			continue
		}
		if got, want := fieldsOf(message), messages[name]; got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func fieldsOf(message protoreflect.MessageDescriptor) string {
	fields := make([]string, message.Fields().Len())
	for i := range fields {
		field := message.Fields().Get(i)
		fields[i] = fmt.Sprintf("%d %s %s", field.Number(), field.Name(), typeOf(field))
	}
	return strings.Join(fields, ", ")
}

func typeOf(field protoreflect.FieldDescriptor) string {
	if field.IsMap() {
		if field.MapKey().Kind() == protoreflect.StringKind && field.MapValue().Kind() == protoreflect.StringKind {
			return "M"
		}
		return "another map"
	}
	letter := map[protoreflect.Kind]string{
		protoreflect.StringKind: "s", protoreflect.BytesKind: "b", protoreflect.BoolKind: "B",
		protoreflect.Int32Kind: "i", protoreflect.Int64Kind: "I", protoreflect.Uint64Kind: "U",
		protoreflect.EnumKind: "E",
	}[field.Kind()]
	if field.Kind() == protoreflect.MessageKind {
		letter = string(field.Message().Name())
	}
	if field.IsList() {
		return "[]" + letter
	}
	return letter
}

func TestContract_Calls(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"Ping":                   "Empty > PingResult",
		"SendEvent":              "Event > Result",
		"SendEventsStream":       "stream Event > stream Result",
		"SubscribeToEvents":      "Subscribe > stream EventReceive",
		"SubscribeToRequests":    "Subscribe > stream Request",
		"SendRequest":            "Request > Response",
		"SendResponse":           "Response > Empty",
		"SendQueueMessage":       "QueueMessage > SendQueueMessageResult",
		"SendQueueMessagesBatch": "QueueMessagesBatchRequest > QueueMessagesBatchResponse",
		"ReceiveQueueMessages":   "ReceiveQueueMessagesRequest > ReceiveQueueMessagesResponse",
		"AckAllQueueMessages":    "AckAllQueueMessagesRequest > AckAllQueueMessagesResponse",
		"StreamQueueMessage":     "stream StreamQueueMessagesRequest > stream StreamQueueMessagesResponse",
		"QueuesUpstream":         "stream QueuesUpstreamRequest > stream QueuesUpstreamResponse",
		"QueuesDownstream":       "stream QueuesDownstreamRequest > stream QueuesDownstreamResponse",
	}
	services := pb.File_kubemq_proto.Services()
	if services.Len() != 1 || services.Get(0).FullName() != "kubemq.kubemq" {
		t.Fatalf("services: got %v, want kubemq.kubemq alone", services)
	}
	got := make(map[string]string)
	methods := services.Get(0).Methods()
	for i := range methods.Len() {
		method := methods.Get(i)
		got[string(method.Name())] = side(method.Input(), method.IsStreamingClient()) + " > " +
			side(method.Output(), method.IsStreamingServer())
	}
	if !maps.Equal(got, want) {
		t.Errorf("calls: got %v, want %v", got, want)
	}
	if got := pb.Kubemq_ServiceDesc.ServiceName; got != "kubemq.kubemq" {
		t.Errorf("service name in Go: got %q, want kubemq.kubemq", got)
	}
	if got := len(pb.Kubemq_ServiceDesc.Methods) + len(pb.Kubemq_ServiceDesc.Streams); got != len(want) {
		t.Errorf("calls in Go: got %d, want %d", got, len(want))
	}
}

func side(message protoreflect.MessageDescriptor, stream bool) string {
	if stream {
		return "stream " + string(message.Name())
	}
	return string(message.Name())
}

// Every enum is looked up by the field that uses it, as programs use numbers
// only and where an enum is declared does not matter.
func TestContract_Enums(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"Subscribe.SubscribeTypeData":                       {"", "Events", "EventsStore", "Commands", "Queries"},
		"Subscribe.EventsStoreTypeData":                     {"", "StartNewOnly", "StartFromFirst", "StartFromLast", "StartAtSequence", "StartAtTime", "StartAtTimeDelta"},
		"Request.RequestTypeData":                           {"", "Command", "Query"},
		"StreamQueueMessagesRequest.StreamRequestTypeData":  {"", "ReceiveMessage", "AckMessage", "RejectMessage", "ModifyVisibility", "ResendMessage", "SendModifiedMessage"},
		"StreamQueueMessagesResponse.StreamRequestTypeData": {"", "ReceiveMessage", "AckMessage", "RejectMessage", "ModifyVisibility", "ResendMessage", "SendModifiedMessage"},
		"QueuesDownstreamRequest.RequestTypeData":           {"", "Get", "AckAll", "AckRange", "NAckAll", "NAckRange", "ReQueueAll", "ReQueueRange", "ActiveOffsets", "TransactionStatus", "CloseByClient", "CloseByServer"},
		"QueuesDownstreamResponse.RequestTypeData":          {"", "Get", "AckAll", "AckRange", "NAckAll", "NAckRange", "ReQueueAll", "ReQueueRange", "ActiveOffsets", "TransactionStatus", "CloseByClient", "CloseByServer"},
	}
	for at, names := range want {
		message, field, _ := strings.Cut(at, ".")
		values := pb.File_kubemq_proto.Messages().ByName(protoreflect.Name(message)).
			Fields().ByName(protoreflect.Name(field)).Enum().Values()
		if values.Len() != len(names) {
			t.Errorf("%s: got %d values, want %d", at, values.Len(), len(names))
			continue
		}
		for number, name := range names {
			value := values.ByNumber(protoreflect.EnumNumber(number))
			// The name of value 0 is free: it only means that nothing was set.
			if value == nil || number > 0 && string(value.Name()) != name {
				t.Errorf("%s: value %d: got %v, want %s", at, number, value, name)
			}
		}
	}
}
