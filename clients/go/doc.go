// Package goqueue is a client for the message broker GoQueue, over gRPC.
//
// A [Client] is one connection. It publishes ([Client.Publish], [Client.Producer]), consumes as a member of a group
// ([Client.Group]) or by position ([Client.Reader]), and combines both in transactions ([Client.TransactionalProducer]).
// Its methods may be called from several goroutines.
//
// Each published message is stored once, whatever becomes of the connection. Errors are an [Error] with the broker's
// code: errors.Is(err, goqueue.ErrTopicNotFound).
package goqueue
