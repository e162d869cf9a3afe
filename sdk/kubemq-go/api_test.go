package kubemq_test

import (
	"context"
	"log/slog"
	"time"

	grpccodes "google.golang.org/grpc/codes"

	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/kubemq-io/kubemq-go/v2/types"
)

// This file spells out every name and signature of the API that the package
// provides: it compiles against release v2.0.4 as well. What is not here is not
// provided.

type (
	client = *kubemq.Client
	ctx    = context.Context
)

var (
	_ func(ctx, ...kubemq.Option) (client, error)    = kubemq.NewClient
	_ func(string, ...kubemq.Option) (client, error) = kubemq.NewClientFromAddress
	_ func() *kubemq.Options                         = kubemq.GetDefaultOptions
	_ func(*kubemq.Options) string                   = (*kubemq.Options).String
	_ func(*kubemq.Options) error                    = (*kubemq.Options).Validate

	_ func(client, ctx) (*kubemq.ServerInfo, error) = client.Ping
	_ func(client) kubemq.ConnectionState           = client.State
	_ func(client) error                            = client.Close
	_ func(*kubemq.ServerInfo) string               = (*kubemq.ServerInfo).String
)

// Options.
var (
	_ func(string, int) kubemq.Option               = kubemq.WithAddress
	_ func(string) kubemq.Option                    = kubemq.WithClientId
	_ func(string) kubemq.Option                    = kubemq.WithAuthToken
	_ func(kubemq.CredentialProvider) kubemq.Option = kubemq.WithCredentialProvider
	_ func(string) kubemq.Option                    = kubemq.WithTLS
	_ func([]byte) kubemq.Option                    = kubemq.WithTLSFromPEM
	_ func(string, string, string) kubemq.Option    = kubemq.WithMTLS
	_ func([]byte, []byte, []byte) kubemq.Option    = kubemq.WithMTLSFromPEM
	_ func(*kubemq.TLSConfig) kubemq.Option         = kubemq.WithTLSConfig
	_ func(string, string) kubemq.Option            = kubemq.WithCredentials
	_ func(string, string) kubemq.Option            = kubemq.WithCertificate
	_ func() kubemq.Option                          = kubemq.WithInsecureSkipVerify
	_ func(string) kubemq.Option                    = kubemq.WithServerNameOverride
	_ func(time.Duration) kubemq.Option             = kubemq.WithConnectionTimeout
	_ func(bool) kubemq.Option                      = kubemq.WithCheckConnection
	_ func(time.Duration) kubemq.Option             = kubemq.WithKeepaliveTime
	_ func(time.Duration) kubemq.Option             = kubemq.WithKeepaliveTimeout
	_ func(bool) kubemq.Option                      = kubemq.WithPermitKeepaliveWithoutStream
	_ func(int) kubemq.Option                       = kubemq.WithMaxReceiveMessageSize
	_ func(int) kubemq.Option                       = kubemq.WithMaxSendMessageSize
	_ func(kubemq.ReconnectPolicy) kubemq.Option    = kubemq.WithReconnectPolicy
	_ func(kubemq.RetryPolicy) kubemq.Option        = kubemq.WithRetryPolicy
	_ func(bool) kubemq.Option                      = kubemq.WithWaitForReady
	_ func(kubemq.Logger) kubemq.Option             = kubemq.WithLogger
	_ func(string) kubemq.Option                    = kubemq.WithDefaultChannel
	_ func(func()) kubemq.Option                    = kubemq.WithOnConnected
	_ func(func()) kubemq.Option                    = kubemq.WithOnDisconnected
	_ func(func()) kubemq.Option                    = kubemq.WithOnReconnecting
	_ func(func()) kubemq.Option                    = kubemq.WithOnReconnected
	_ func(func()) kubemq.Option                    = kubemq.WithOnClosed
	_ func(int) kubemq.Option                       = kubemq.WithReceiveBufferSize
	_ func(int) kubemq.Option                       = kubemq.WithMaxConcurrentCallbacks
	_ func(time.Duration) kubemq.Option             = kubemq.WithCallbackTimeout
	_ func(time.Duration) kubemq.Option             = kubemq.WithDrainTimeout

	_ kubemq.Logger                                                     = (*kubemq.SlogAdapter)(nil)
	_ func(*slog.Logger) *kubemq.SlogAdapter                            = kubemq.NewSlogAdapter
	_ kubemq.CredentialProvider                                         = (*kubemq.StaticTokenProvider)(nil)
	_ func(string) *kubemq.StaticTokenProvider                          = kubemq.NewStaticTokenProvider
	_ func(*kubemq.StaticTokenProvider, ctx) (string, time.Time, error) = (*kubemq.StaticTokenProvider).GetToken
	_ func() kubemq.CallbackConfig                                      = kubemq.DefaultCallbackConfig
	_ func() kubemq.ReconnectPolicy                                     = kubemq.DefaultReconnectPolicy
	_ func() kubemq.RetryPolicy                                         = kubemq.DefaultRetryPolicy
	_ func(grpccodes.Code) (kubemq.ErrorCategory, kubemq.ErrorCode)     = kubemq.ClassifyGRPCCode
	_ func(kubemq.ErrorCategory) bool                                   = kubemq.IsRetryableCategory
)

// Queues.
var (
	_ func(client, ctx, *kubemq.QueueMessage) (*kubemq.QueueSendResult, error)                           = client.SendQueueMessage
	_ func(client, ctx, []*kubemq.QueueMessage) ([]*kubemq.QueueSendResult, error)                       = client.SendQueueMessages
	_ func(client, ctx, string, []byte, ...kubemq.QueueSendOption) (*kubemq.QueueSendResult, error)      = client.SendQueueMessageSimple
	_ func(client, ctx) (*kubemq.QueueUpstreamHandle, error)                                             = client.QueueUpstream
	_ func(client, ctx) (*kubemq.QueueDownstreamReceiver, error)                                         = client.NewQueueDownstreamReceiver
	_ func(client, ctx, *kubemq.PollRequest) (*kubemq.PollResponse, error)                               = client.PollQueue
	_ func(client, ctx, *kubemq.AckAllQueueMessagesRequest) (*kubemq.AckAllQueueMessagesResponse, error) = client.AckAllQueueMessages
	_ func(*kubemq.QueueDownstreamReceiver, ctx, *kubemq.PollRequest) (*kubemq.PollResponse, error)      = (*kubemq.QueueDownstreamReceiver).Poll
	_ func(*kubemq.QueueDownstreamReceiver) <-chan error                                                 = (*kubemq.QueueDownstreamReceiver).Errors
	_ func(*kubemq.QueueDownstreamReceiver) error                                                        = (*kubemq.QueueDownstreamReceiver).Close
	_ func(*kubemq.QueueDownstreamMessage) error                                                         = (*kubemq.QueueDownstreamMessage).Ack
	_ func(*kubemq.QueueDownstreamMessage) error                                                         = (*kubemq.QueueDownstreamMessage).Nack
	_ func(*kubemq.QueueDownstreamMessage, string) error                                                 = (*kubemq.QueueDownstreamMessage).ReQueue
	_ func(*kubemq.PollResponse) error                                                                   = (*kubemq.PollResponse).AckAll
	_ func(*kubemq.PollResponse) error                                                                   = (*kubemq.PollResponse).NackAll
	_ func(*kubemq.PollResponse, string) error                                                           = (*kubemq.PollResponse).ReQueueAll

	_ func(int) kubemq.QueueSendOption         = kubemq.WithDelay
	_ func(int) kubemq.QueueSendOption         = kubemq.WithExpiration
	_ func(int, string) kubemq.QueueSendOption = kubemq.WithMaxReceive

	_ func() *kubemq.QueueMessage                                             = kubemq.NewQueueMessage
	_ func(client) *kubemq.QueueMessage                                       = client.NewQueueMessage
	_ func(client) *kubemq.QueueMessages                                      = client.NewQueueMessages
	_ func(*kubemq.QueueMessages, *kubemq.QueueMessage) *kubemq.QueueMessages = (*kubemq.QueueMessages).Add
	_ func(*kubemq.QueueMessage, string, string) *kubemq.QueueMessage         = (*kubemq.QueueMessage).AddTag
	_ func(*kubemq.QueueMessage, []byte) *kubemq.QueueMessage                 = (*kubemq.QueueMessage).SetBody
	_ func(*kubemq.QueueMessage, string) *kubemq.QueueMessage                 = (*kubemq.QueueMessage).SetChannel
	_ func(*kubemq.QueueMessage, string) *kubemq.QueueMessage                 = (*kubemq.QueueMessage).SetClientId
	_ func(*kubemq.QueueMessage, int) *kubemq.QueueMessage                    = (*kubemq.QueueMessage).SetDelaySeconds
	_ func(*kubemq.QueueMessage, int) *kubemq.QueueMessage                    = (*kubemq.QueueMessage).SetExpirationSeconds
	_ func(*kubemq.QueueMessage, string) *kubemq.QueueMessage                 = (*kubemq.QueueMessage).SetId
	_ func(*kubemq.QueueMessage, int) *kubemq.QueueMessage                    = (*kubemq.QueueMessage).SetMaxReceiveCount
	_ func(*kubemq.QueueMessage, string) *kubemq.QueueMessage                 = (*kubemq.QueueMessage).SetMaxReceiveQueue
	_ func(*kubemq.QueueMessage, string) *kubemq.QueueMessage                 = (*kubemq.QueueMessage).SetMetadata
	_ func(*kubemq.QueueMessage, *kubemq.QueuePolicy) *kubemq.QueueMessage    = (*kubemq.QueueMessage).SetPolicy
	_ func(*kubemq.QueueMessage, map[string]string) *kubemq.QueueMessage      = (*kubemq.QueueMessage).SetTags
	_ func(*kubemq.QueueMessage) string                                       = (*kubemq.QueueMessage).String
	_ func(*kubemq.QueueMessage) error                                        = (*kubemq.QueueMessage).Validate
)

// Events.
var (
	_ func(client, ctx, *kubemq.Event) error                                                                                = client.SendEvent
	_ func(client, ctx, *kubemq.EventStore) (*kubemq.EventStoreResult, error)                                               = client.SendEventStore
	_ func(client, ctx) (*kubemq.EventStreamHandle, error)                                                                  = client.SendEventStream
	_ func(client, ctx) (*kubemq.EventStoreStreamHandle, error)                                                             = client.SendEventStoreStream
	_ func(client, ctx, string, []byte, ...kubemq.PublishOption) error                                                      = client.PublishEvent
	_ func(client, ctx, string, []byte, ...kubemq.PublishOption) (*kubemq.EventStoreResult, error)                          = client.PublishEventStore
	_ func(client, ctx, string, string, ...kubemq.SubscribeOption) (*kubemq.Subscription, error)                            = client.SubscribeToEvents
	_ func(client, ctx, string, string, kubemq.SubscriptionOption, ...kubemq.SubscribeOption) (*kubemq.Subscription, error) = client.SubscribeToEventsStore

	_ func(string) kubemq.PublishOption            = kubemq.WithID
	_ func(string) kubemq.PublishOption            = kubemq.WithMetadata
	_ func(map[string]string) kubemq.PublishOption = kubemq.WithTags

	_ func(func(*kubemq.Event)) kubemq.SubscribeOption             = kubemq.WithOnEvent
	_ func(func(*kubemq.EventStoreReceive)) kubemq.SubscribeOption = kubemq.WithOnEventStoreReceive
	_ func(func(error)) kubemq.SubscribeOption                     = kubemq.WithOnError

	_ func() kubemq.SubscriptionOption              = kubemq.StartFromFirstEvent
	_ func() kubemq.SubscriptionOption              = kubemq.StartFromLastEvent
	_ func() kubemq.SubscriptionOption              = kubemq.StartFromNewEvents
	_ func(int) kubemq.SubscriptionOption           = kubemq.StartFromSequence
	_ func(time.Time) kubemq.SubscriptionOption     = kubemq.StartFromTime
	_ func(time.Duration) kubemq.SubscriptionOption = kubemq.StartFromTimeDelta

	_ func(*kubemq.Subscription)                 = (*kubemq.Subscription).Cancel
	_ func(*kubemq.Subscription)                 = (*kubemq.Subscription).Unsubscribe
	_ func(*kubemq.Subscription) <-chan struct{} = (*kubemq.Subscription).Done
	_ func(*kubemq.Subscription) string          = (*kubemq.Subscription).ID
	_ func(*kubemq.Subscription) bool            = (*kubemq.Subscription).IsDone
	_ func(*kubemq.EventStoreReceive) string     = (*kubemq.EventStoreReceive).String

	_ func() *kubemq.Event                                 = kubemq.NewEvent
	_ func(client) *kubemq.Event                           = client.NewEvent
	_ func(*kubemq.Event, string, string) *kubemq.Event    = (*kubemq.Event).AddTag
	_ func(*kubemq.Event, []byte) *kubemq.Event            = (*kubemq.Event).SetBody
	_ func(*kubemq.Event, string) *kubemq.Event            = (*kubemq.Event).SetChannel
	_ func(*kubemq.Event, string) *kubemq.Event            = (*kubemq.Event).SetClientId
	_ func(*kubemq.Event, string) *kubemq.Event            = (*kubemq.Event).SetId
	_ func(*kubemq.Event, string) *kubemq.Event            = (*kubemq.Event).SetMetadata
	_ func(*kubemq.Event, map[string]string) *kubemq.Event = (*kubemq.Event).SetTags
	_ func(*kubemq.Event) string                           = (*kubemq.Event).String
	_ func(*kubemq.Event) error                            = (*kubemq.Event).Validate

	_ func() *kubemq.EventStore                                      = kubemq.NewEventStore
	_ func(client) *kubemq.EventStore                                = client.NewEventStore
	_ func(*kubemq.EventStore, string, string) *kubemq.EventStore    = (*kubemq.EventStore).AddTag
	_ func(*kubemq.EventStore, []byte) *kubemq.EventStore            = (*kubemq.EventStore).SetBody
	_ func(*kubemq.EventStore, string) *kubemq.EventStore            = (*kubemq.EventStore).SetChannel
	_ func(*kubemq.EventStore, string) *kubemq.EventStore            = (*kubemq.EventStore).SetClientId
	_ func(*kubemq.EventStore, string) *kubemq.EventStore            = (*kubemq.EventStore).SetId
	_ func(*kubemq.EventStore, string) *kubemq.EventStore            = (*kubemq.EventStore).SetMetadata
	_ func(*kubemq.EventStore, map[string]string) *kubemq.EventStore = (*kubemq.EventStore).SetTags
	_ func(*kubemq.EventStore) error                                 = (*kubemq.EventStore).Validate
)

// Channel management.
var (
	_ func(client, ctx, string, string) error                          = client.CreateChannel
	_ func(client, ctx, string) error                                  = client.CreateCommandsChannel
	_ func(client, ctx, string) error                                  = client.CreateEventsChannel
	_ func(client, ctx, string) error                                  = client.CreateEventsStoreChannel
	_ func(client, ctx, string) error                                  = client.CreateQueriesChannel
	_ func(client, ctx, string) error                                  = client.CreateQueuesChannel
	_ func(client, ctx, string, string) error                          = client.DeleteChannel
	_ func(client, ctx, string) error                                  = client.DeleteCommandsChannel
	_ func(client, ctx, string) error                                  = client.DeleteEventsChannel
	_ func(client, ctx, string) error                                  = client.DeleteEventsStoreChannel
	_ func(client, ctx, string) error                                  = client.DeleteQueriesChannel
	_ func(client, ctx, string) error                                  = client.DeleteQueuesChannel
	_ func(client, ctx, string, string) ([]*kubemq.ChannelInfo, error) = client.ListChannels
	_ func(client, ctx, string) ([]*kubemq.ChannelInfo, error)         = client.ListCommandsChannels
	_ func(client, ctx, string) ([]*kubemq.ChannelInfo, error)         = client.ListEventsChannels
	_ func(client, ctx, string) ([]*kubemq.ChannelInfo, error)         = client.ListEventsStoreChannels
	_ func(client, ctx, string) ([]*kubemq.ChannelInfo, error)         = client.ListQueriesChannels
	_ func(client, ctx, string) ([]*kubemq.ChannelInfo, error)         = client.ListQueuesChannels
)

// Fields, with their types.
var (
	_ = kubemq.ServerInfo{Host: "", Version: "", ServerStartTime: int64(0), ServerUpTimeSeconds: int64(0)}
	_ = kubemq.QueueMessage{ID: "", ClientID: "", Channel: "", Metadata: "", Body: []byte(nil), Tags: map[string]string(nil),
		Policy: (*kubemq.QueuePolicy)(nil), Attributes: (*kubemq.QueueMessageAttributes)(nil)}
	_ = kubemq.QueueMessageAttributes{DelayedTo: int64(0), ExpirationAt: int64(0), MD5OfBody: "", ReRouted: false, ReRoutedFromQueue: "",
		ReceiveCount: int(0), Sequence: uint64(0), Timestamp: int64(0)}
	_ = kubemq.QueuePolicy{DelaySeconds: int(0), ExpirationSeconds: int(0), MaxReceiveCount: int(0), MaxReceiveQueue: ""}
	_ = kubemq.QueueMessages{Messages: []*kubemq.QueueMessage(nil)}
	_ = kubemq.QueueSendResult{DelayedTo: int64(0), Error: "", ExpirationAt: int64(0), IsError: false, MessageID: "", SentAt: int64(0)}
	_ = kubemq.QueueUpstreamHandle{Close: (func())(nil), Done: (<-chan struct{})(nil), Results: (<-chan *kubemq.QueueUpstreamResult)(nil),
		Send: (func(requestID string, msgs []*kubemq.QueueMessage) error)(nil)}
	_ = kubemq.QueueUpstreamResult{Error: "", IsError: false, RefRequestID: "", Results: []*kubemq.QueueSendResult(nil)}
	_ = kubemq.PollRequest{AutoAck: false, Channel: "", MaxItems: int32(0), WaitTimeoutSeconds: int32(0)}
	_ = kubemq.PollResponse{Error: "", IsError: false, Messages: []*kubemq.QueueDownstreamMessage(nil), TransactionID: ""}
	_ = kubemq.QueueDownstreamMessage{Message: (*kubemq.QueueMessage)(nil), Sequence: uint64(0), TransactionID: ""}
	_ = kubemq.AckAllQueueMessagesRequest{Channel: "", ClientID: "", RequestID: "", WaitTimeSeconds: int32(0)}
	_ = kubemq.AckAllQueueMessagesResponse{AffectedMessages: uint64(0), Error: "", IsError: false, RequestID: ""}
	_ = kubemq.Event{Body: []byte(nil), Channel: "", ClientId: "", Id: "", Metadata: "", Tags: map[string]string(nil)}
	_ = kubemq.EventStore{Body: []byte(nil), Channel: "", ClientId: "", Id: "", Metadata: "", Tags: map[string]string(nil)}
	_ = kubemq.EventStoreReceive{Body: []byte(nil), Channel: "", ClientId: "", Id: "", Metadata: "", Sequence: uint64(0),
		Tags: map[string]string(nil), Timestamp: time.Time{}}
	_ = kubemq.EventStoreResult{Err: error(nil), Id: "", Sent: false}
	_ = kubemq.EventStreamResult{Error: "", EventID: "", Sent: false}
	_ = kubemq.EventStreamHandle{Close: (func())(nil), Done: (<-chan struct{})(nil), Errors: (<-chan error)(nil), Send: (func(*kubemq.Event) error)(nil)}
	_ = kubemq.EventStoreStreamHandle{Close: (func())(nil), Done: (<-chan struct{})(nil), Results: (<-chan *kubemq.EventStreamResult)(nil),
		Send: (func(*kubemq.EventStore) error)(nil)}
	_ = kubemq.ChannelInfo{Incoming: (*kubemq.ChannelStats)(nil), IsActive: false, LastActivity: int64(0), Name: "",
		Outgoing: (*kubemq.ChannelStats)(nil), Type: ""}
	_ = kubemq.ChannelStats{Delayed: int64(0), Expired: int64(0), Messages: int64(0), Responses: int64(0), Volume: int64(0), Waiting: int64(0)}
	_ = kubemq.CallbackConfig{MaxConcurrent: int(0), Timeout: time.Duration(0)}
	_ = kubemq.StateCallbacks{OnClosed: (func())(nil), OnConnected: (func())(nil), OnDisconnected: (func())(nil),
		OnReconnected: (func())(nil), OnReconnecting: (func())(nil)}
	_ = kubemq.BufferFullError{BufferSize: int(0), QueuedCount: int(0)}
	_ = kubemq.HandlerError{Cause: error(nil), Handler: ""}
	_ = kubemq.StreamBrokenError{UnacknowledgedIDs: []string(nil)}
	_ = kubemq.TransportError{Cause: error(nil), Op: ""}

	_ error                              = (*kubemq.BufferFullError)(nil)
	_ error                              = (*kubemq.HandlerError)(nil)
	_ error                              = (*kubemq.StreamBrokenError)(nil)
	_ error                              = (*kubemq.TransportError)(nil)
	_ error                              = (*kubemq.KubeMQError)(nil)
	_ func(*kubemq.HandlerError) error   = (*kubemq.HandlerError).Unwrap
	_ func(*kubemq.TransportError) error = (*kubemq.TransportError).Unwrap
	_ error                              = kubemq.ErrClientClosed
	_ error                              = kubemq.ErrValidation
)

// Package types and its aliases.
var (
	_ = types.KubeMQError{Cause: error(nil), Channel: "", Code: types.ErrorCode(""), IsRetryable: false, Message: "", Operation: "", RequestID: ""}
	_ = types.ReconnectPolicy{BufferSize: int(0), InitialDelay: time.Duration(0), JitterMode: types.JitterMode(0), MaxAttempts: int(0),
		MaxDelay: time.Duration(0), Multiplier: float64(0)}
	_ = types.RetryPolicy{InitialBackoff: time.Duration(0), JitterMode: types.JitterMode(0), MaxBackoff: time.Duration(0), MaxRetries: int(0),
		Multiplier: float64(0)}
	_ = types.TLSConfig{CACertFile: "", CACertPEM: []byte(nil), CertFile: "", CertPEM: []byte(nil), KeyFile: "", KeyPEM: []byte(nil),
		MinVersion: uint16(0), ServerName: ""}

	_ *kubemq.KubeMQError        = (*types.KubeMQError)(nil)
	_ kubemq.ReconnectPolicy     = types.ReconnectPolicy{}
	_ kubemq.RetryPolicy         = types.RetryPolicy{}
	_ kubemq.TLSConfig           = types.TLSConfig{}
	_ kubemq.StaticTokenProvider = types.StaticTokenProvider{}
	_ kubemq.Logger              = types.Logger(nil)
	_ kubemq.CredentialProvider  = types.CredentialProvider(nil)

	_ func(types.ConnectionState) string                                      = types.ConnectionState.String
	_ func(types.ErrorCode) string                                            = types.ErrorCode.String
	_ func(types.JitterMode) string                                           = types.JitterMode.String
	_ func(*types.KubeMQError) string                                         = (*types.KubeMQError).Error
	_ func(*types.KubeMQError, error) bool                                    = (*types.KubeMQError).Is
	_ func(*types.KubeMQError) error                                          = (*types.KubeMQError).Unwrap
	_ func(types.ErrorCode) types.ErrorCategory                               = types.CategoryForCode
	_ func(grpccodes.Code) (types.ErrorCategory, types.ErrorCode)             = types.ClassifyGRPCCode
	_ func() types.ReconnectPolicy                                            = types.DefaultReconnectPolicy
	_ func() types.RetryPolicy                                                = types.DefaultRetryPolicy
	_ func(types.ErrorCategory) bool                                          = types.IsRetryableCategory
	_ func(types.ErrorCode, string, string, string, error) *types.KubeMQError = types.NewError
	_ func(string) *types.StaticTokenProvider                                 = types.NewStaticTokenProvider
	_ map[types.ErrorCode]string                                              = types.ErrorSuggestions
)

// Constants: the array lengths fail to compile when a value is another one.
var (
	_ = [1]int{}[kubemq.QueueDownstreamGet-1]
	_ = [1]int{}[kubemq.QueueDownstreamAckAll-2]
	_ = [1]int{}[kubemq.QueueDownstreamAckRange-3]
	_ = [1]int{}[kubemq.QueueDownstreamNAckAll-4]
	_ = [1]int{}[kubemq.QueueDownstreamNAckRange-5]
	_ = [1]int{}[kubemq.QueueDownstreamReQueueAll-6]
	_ = [1]int{}[kubemq.QueueDownstreamReQueueRange-7]
	_ = [1]int{}[kubemq.QueueDownstreamActiveOffsets-8]
	_ = [1]int{}[kubemq.QueueDownstreamTransactionStatus-9]
	_ = [1]int{}[kubemq.QueueDownstreamCloseByClient-10]
	_ = [1]int{}[kubemq.QueueDownstreamCloseByServer-11]

	_ = map[string]bool{kubemq.Version: true, "other": true}
	_ = map[string]bool{kubemq.ChannelTypeCommands: true, kubemq.ChannelTypeEvents: true, kubemq.ChannelTypeEventsStore: true,
		kubemq.ChannelTypeQueries: true, kubemq.ChannelTypeQueues: true}

	_ = [1]int{}[kubemq.DefaultQueuePollTimeout/time.Second-30]
	_ = [1]int{}[kubemq.DefaultQueueRecvTimeout/time.Second-10]
	_ = [1]int{}[kubemq.DefaultRPCTimeout/time.Second-10]
	_ = [1]int{}[kubemq.DefaultSendTimeout/time.Second-5]
	_ = [1]int{}[kubemq.DefaultSubscribeTimeout/time.Second-10]

	_ = []kubemq.ConnectionState{kubemq.StateIdle, kubemq.StateConnecting, kubemq.StateReady, kubemq.StateReconnecting, kubemq.StateClosed}
	_ = []kubemq.JitterMode{kubemq.JitterNone, kubemq.JitterFull, kubemq.JitterEqual}
	_ = []kubemq.ErrorCode{kubemq.ErrCodeAuthentication, kubemq.ErrCodeAuthorization, kubemq.ErrCodeBackpressure, kubemq.ErrCodeCancellation,
		kubemq.ErrCodeFatal, kubemq.ErrCodeNotFound, kubemq.ErrCodeThrottling, kubemq.ErrCodeTimeout, kubemq.ErrCodeTransient, kubemq.ErrCodeValidation}
	_ = []kubemq.ErrorCategory{kubemq.CategoryAuthentication, kubemq.CategoryAuthorization, kubemq.CategoryBackpressure, kubemq.CategoryCancellation,
		kubemq.CategoryFatal, kubemq.CategoryNotFound, kubemq.CategoryThrottling, kubemq.CategoryTimeout, kubemq.CategoryTransient, kubemq.CategoryValidation}
)
