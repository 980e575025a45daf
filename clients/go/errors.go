package goqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "goqueue/goqueuev1"
)

// Code is the stable code of an error, and an error to compare with: errors.Is(err, goqueue.ErrTopicNotFound).
type Code string

func (c Code) Error() string { return string(c) }

// Codes of this client.
const (
	ErrCancelled     Code = "cancelled"
	ErrClientClosed  Code = "client_closed"
	ErrReaderTooSlow Code = "reader_too_slow"
	ErrUnknown       Code = "unknown"
)

const domain = "goqueue"

// Problem is a field of an invalid request.
type Problem struct {
	Field   string
	Problem string
}

// Error is an error of the broker, or of the way to it.
type Error struct {
	// Code is stable; docs/errors.md of the broker lists all of them.
	Code    Code
	Message string
	// Hint says what to do.
	Hint string
	// Details are further values, as text or JSON.
	Details map[string]string
	// RetryAfter is when the broker asks to be tried again.
	RetryAfter time.Duration
	// Status is that of gRPC, if the whole call failed.
	Status codes.Code
	// Problems are the fields of an invalid request.
	Problems []Problem
	// Unsure is true if the broker may have carried out the request all the same.
	Unsure bool

	cause error
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Code, e.Message, e.Hint)
}

func (e *Error) Unwrap() error { return e.cause }

// Is reports whether the error has this code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// IsTransient reports whether the same request may succeed later.
func (e *Error) IsTransient() bool { return transientCodes[e.Code] || e.Code == ErrReaderTooSlow }

var codesByStatus = map[codes.Code]Code{
	codes.Unavailable:       ErrBrokerUnreachable,
	codes.DeadlineExceeded:  ErrRequestTimedOut,
	codes.Canceled:          ErrCancelled,
	codes.Unauthenticated:   ErrUnauthenticated,
	codes.PermissionDenied:  ErrPermissionDenied,
	codes.ResourceExhausted: ErrBrokerOverloaded,
}

// ErrorOf returns the error of a call of a generated client. It returns nil for nil.
func ErrorOf(err error) *Error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return known
	}
	found, ok := status.FromError(err)
	if !ok {
		found = status.FromContextError(err)
	}
	answer := &Error{Code: ErrUnknown, Message: found.Message(), Status: found.Code(), cause: causeOf(err, found.Code())}
	if info := answer.read(found.Details()); info != nil {
		answer.Code = Code(info.Reason)
		answer.Hint, answer.Details = withoutHint(info.Metadata)
		return answer
	}
	if code, ok := codesByStatus[found.Code()]; ok {
		answer.Code = code
	}
	if wasNeverSent(found) {
		answer.Hint = "is a broker running there, with --grpc-port? Options.Address or GOQUEUE_GRPC_ADDRESS names another one"
	} else {
		answer.Unsure = found.Code() != codes.Unauthenticated && found.Code() != codes.PermissionDenied
	}
	return answer
}

// wasNeverSent reports whether a call failed since there was no connection; gRPC says so by text only.
func wasNeverSent(found *status.Status) bool {
	text := found.Message()
	isNever := strings.Contains(text, "transport: Error while dialing") || strings.HasPrefix(text, "name resolver error")
	return found.Code() == codes.Unavailable && isNever
}

// causeOf makes errors.Is(err, context.Canceled) and the like true.
func causeOf(err error, code codes.Code) error {
	switch code {
	case codes.Canceled:
		return errors.Join(err, context.Canceled)
	case codes.DeadlineExceeded:
		return errors.Join(err, context.DeadlineExceeded)
	default:
		return err
	}
}

func (e *Error) read(details []any) (info *errdetails.ErrorInfo) {
	for _, detail := range details {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == domain {
				info = detail
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = detail.RetryDelay.AsDuration()
		case *errdetails.BadRequest:
			for _, one := range detail.FieldViolations {
				e.Problems = append(e.Problems, Problem{one.Field, one.Description})
			}
		}
	}
	return info
}

// errorOfPart returns the error of a part of a response.
func errorOfPart(found *pb.Error) *Error {
	answer := &Error{Code: Code(found.Reason), Message: found.Message, RetryAfter: found.RetryAfter.AsDuration()}
	if found.Reason == "" {
		answer.Code = ErrUnknown
	}
	answer.Hint, answer.Details = withoutHint(found.Details)
	return answer
}

func withoutHint(given map[string]string) (string, map[string]string) {
	details := maps.Clone(given)
	delete(details, "hint")
	return given["hint"], details
}

func invalid(format string, values ...any) *Error {
	return &Error{Code: ErrRequestInvalid, Message: fmt.Sprintf(format, values...)}
}
