/** Client for the message broker GoQueue, over gRPC. */
export { Client } from "./client.js";
export type { CallOptions, ClientOptions, Method, TlsOptions } from "./connection.js";
export { Delivery, type Receipt } from "./delivery.js";
export { type ClientErrorCode, type ErrorCode, GoQueueError } from "./errors.js";
export type { Bytes, OutgoingMessage, Priority } from "./frames.js";
export { GroupConsumer, type GroupEvents, type GroupOptions, LeasedMessage, type TopicPartition } from "./group.js";
export { Message } from "./message.js";
export { Producer, type ProducerOptions } from "./producer.js";
export { Reader, type ReaderOptions } from "./reader.js";
export { type TopicInfo, Topics } from "./topics.js";
export { Transaction, TransactionalProducer, type TransactionalOptions } from "./transaction.js";
