/** The client: one connection, and what is made of it. */
import { type CallOptions, type ClientOptions, Connection, type Method } from "./connection.js";
import { errorOfCall } from "./errors.js";
import type { OutgoingMessage } from "./frames.js";
import { AdminServiceService } from "./gen/goqueue/v1/admin.js";
import { GroupConsumer, type GroupOptions } from "./group.js";
import { Producer, type ProducerOptions, type Receipt } from "./producer.js";
import { Reader, type ReaderOptions } from "./reader.js";
import { Topics } from "./topics.js";
import { TransactionalProducer, type TransactionalOptions } from "./transaction.js";

export class Client {
  readonly topics: Topics;
  private readonly connection: Connection;
  private own: Producer | undefined;

  constructor(options: ClientOptions = {}) {
    this.connection = new Connection(options);
    this.topics = new Topics(this.connection);
  }

  /** Publish one message, and wait until it is stored: exactly once, whatever becomes of the connection. */
  async publish(topic: string, message: OutgoingMessage): Promise<Receipt> {
    this.own ??= new Producer(this.connection);
    return (await this.own.send(topic, message)).receipt();
  }

  /** A producer that sends in the background, for throughput. Close it. */
  producer(options?: ProducerOptions): Producer {
    return new Producer(this.connection, options);
  }

  /** A producer of transactions. The id must be the same after a restart of this program, and no other's. */
  transactionalProducer(transactionalId: string, options?: TransactionalOptions): TransactionalProducer {
    return new TransactionalProducer(this.connection, transactionalId, options);
  }

  /** A member of a group. */
  group(group: string, topics: string | readonly string[], options: GroupOptions = {}): GroupConsumer {
    return new GroupConsumer(this.connection, group, typeof topics === "string" ? [topics] : topics, options);
  }

  /** A reader of a topic by offset or time, without a group. */
  reader(topic: string, options: ReaderOptions = {}): Reader {
    return new Reader(this.connection, topic, options);
  }

  /** Call any unary method of the services, as generated: `client.call(OffsetService.fetchOffsets, {…})`. */
  async call<Q, A>(method: Method<Q, A>, request: Q, options: CallOptions & { repeatable?: boolean } = {}): Promise<A> {
    return await this.connection.call(method, request, options);
  }

  /** Call an endpoint of docs/http.md whose request and answer are JSON. Reads are repeated after passing failures. */
  async request<T = unknown>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
    const request = { method, path, body: body === undefined ? "" : JSON.stringify(body) };
    const call = { ...options, repeatable: method === "GET" };
    const answer = await this.connection.call(AdminServiceService.call, request, call);
    const text = answer.body?.toString() ?? "";
    return (text && answer.contentType?.includes("json") ? JSON.parse(text) : text) as T;
  }

  /** Send what `publish` has taken, and close the connection. Close producers and members before. */
  async close(): Promise<void> {
    try {
      await this.own?.close();
    } catch (failure) {
      throw errorOfCall(failure);
    } finally {
      this.connection.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
