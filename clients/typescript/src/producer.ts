/** Producers: they take messages at once, and send them in the background. */
import type { Connection } from "./connection.js";
import { Delivery, type Entry, type Receipt } from "./delivery.js";
import { GoQueueError } from "./errors.js";
import { frameBytes, type OutgoingMessage, partsOf } from "./frames.js";
import { TransactionServiceService } from "./gen/goqueue/v1/transaction.js";
import { type Identity, type SenderHost, TopicSender } from "./topic-sender.js";

export interface ProducerOptions {
  /** When the broker answers: when a message is on its disk, or when all in-sync replicas have it. Default: leader. */
  acks?: "leader" | "all";
  /** Maximum size of a request. Default: 1 MiB. */
  requestBytes?: number;
  /** Messages that wait; beyond it, `send` waits for room. Default: 32 MiB. */
  bufferBytes?: number;
  /** Time after which a message that is not stored fails. Default: 120,000. */
  deliveryTimeoutMs?: number;
}

/** The common part of producers with and without transactions. */
export abstract class ProducerCore implements SenderHost {
  readonly requestBytes: number;
  readonly deliveryTimeoutMs: number;
  readonly acks: "leader" | "all";
  abstract readonly isTransactional: boolean;
  protected readonly senders = new Map<string, TopicSender>();
  protected readonly pending = new Set<Delivery>();
  protected failure: GoQueueError | undefined;
  private readonly bufferBytes: number;
  private buffered = 0;
  private readonly waiters: { size: number; resolve: () => void }[] = [];
  protected isClosed = false;

  constructor(readonly connection: Connection, options: ProducerOptions = {}) {
    this.acks = options.acks ?? "leader";
    this.requestBytes = options.requestBytes ?? 1 << 20;
    this.bufferBytes = options.bufferBytes ?? 32 << 20;
    this.deliveryTimeoutMs = options.deliveryTimeoutMs ?? 120_000;
  }

  abstract identify(): Promise<Identity>;

  /** The bytes of messages that are neither stored nor failed. */
  get bufferedBytes(): number {
    return this.buffered;
  }

  protected async take(topic: string, messages: readonly OutgoingMessage[]): Promise<Delivery> {
    this.refuseIfClosed();
    const sender = this.sender(topic);
    let facts = await sender.loadFacts();
    if (messages.some((message) => (message.partition ?? 0) >= facts.partitions)) facts = await sender.reloadFacts();
    const delivery = new Delivery(topic, messages.length);
    const entries = messages.map((message, index): Entry => {
      const parts = partsOf(message, facts.messageBytesMax, this.isTransactional);
      const delayed = message.delayMs !== undefined || message.deliverAt !== undefined;
      const size = frameBytes(parts);
      return { parts, size, delayed, fixed: partition(message, facts.partitions), delivery, index, sinceMs: Date.now() };
    });
    for (const entry of entries) {
      if (this.waiters.length > 0 || (this.buffered > 0 && this.buffered + entry.size > this.bufferBytes)) {
        await new Promise<void>((resolve) => this.waiters.push({ size: entry.size, resolve }));
      }
      this.refuseIfClosed();
      this.pending.add(delivery);
      this.buffered += entry.size;
      sender.add(entry);
    }
    return delivery;
  }

  private sender(topic: string): TopicSender {
    let sender = this.senders.get(topic);
    if (sender === undefined) {
      sender = new TopicSender(this, topic);
      this.senders.set(topic, sender);
    }
    return sender;
  }

  /** @internal */
  settled(entries: readonly Entry[], error?: GoQueueError): void {
    this.failure ??= error;
    for (const entry of entries) this.buffered -= entry.size;
    let [next] = this.waiters;
    let free = this.bufferBytes - this.buffered;
    while (next && (free >= next.size || free === this.bufferBytes)) {
      free -= next.size;
      this.waiters.shift();
      next.resolve();
      [next] = this.waiters;
    }
    if (this.pending.size > 64) this.forget();
  }

  private forget(): void {
    for (const delivery of this.pending) {
      if (!delivery.isSettled) break;
      if (delivery.unseenFailure === undefined) this.pending.delete(delivery);
      else break;
    }
  }

  /** Wait until everything sent so far is stored or has failed. Throws a failure that no caller has asked for. */
  async flush(): Promise<void> {
    const waiting = [...this.pending];
    let failure: GoQueueError | undefined;
    for (const delivery of waiting) {
      await delivery.wait();
      failure ??= delivery.unseenFailure;
      this.pending.delete(delivery);
    }
    if (failure) throw failure;
  }

  protected refuseIfClosed(): void {
    if (this.isClosed) throw new GoQueueError("client_closed", "this producer is closed");
  }

  protected end(): void {
    this.isClosed = true;
    for (const sender of this.senders.values()) sender.close();
    for (const waiter of this.waiters.splice(0)) waiter.resolve();
  }
}

function partition(message: OutgoingMessage, count: number): number | undefined {
  const given = message.partition;
  if (given === undefined) return undefined;
  if (Number.isInteger(given) && given >= 0 && given < count) return given;
  throw new GoQueueError("partition_not_found", `there is no partition ${given}, but ${count}: 0 to ${count - 1}`);
}

/**
 * Sends messages in the background, each of them exactly once and in the order of the calls.
 *
 * A failure is thrown by `receipt()` of its delivery, or else by the next `flush()` or `close()`.
 */
export class Producer extends ProducerCore {
  readonly isTransactional = false;

  /** Take a message to be sent. Waits only while the buffer is full. */
  send(topic: string, message: OutgoingMessage): Promise<Delivery> {
    return this.take(topic, [message]);
  }

  /** Take many messages, which is faster than one by one. If one is invalid, none is taken. */
  sendMany(topic: string, messages: readonly OutgoingMessage[]): Promise<Delivery> {
    return this.take(topic, messages);
  }

  /**
   * Publish a stream of messages, and yield the delivery of each batch when it is settled, in their order. The source is
   * read no faster than the broker stores.
   */
  async *stream(
    topic: string,
    source: AsyncIterable<OutgoingMessage> | Iterable<OutgoingMessage>,
    options: { batchMessages?: number; batchesAhead?: number } = {},
  ): AsyncGenerator<Delivery, void, void> {
    const { batchMessages = 1000, batchesAhead = 4 } = options;
    const ahead: Delivery[] = [];
    let batch: OutgoingMessage[] = [];
    for await (const message of source) {
      if (batch.push(message) < batchMessages) continue;
      ahead.push(await this.take(topic, batch));
      batch = [];
      if (ahead.length >= batchesAhead) yield await settled(ahead.shift() as Delivery);
    }
    if (batch.length > 0) ahead.push(await this.take(topic, batch));
    for (const delivery of ahead) yield await settled(delivery);
  }

  /** @internal */
  async identify(): Promise<Identity> {
    const found = await this.connection.call(TransactionServiceService.initProducer, {}, { repeatable: true });
    return { producerId: found.producerId ?? 0, epoch: found.epoch ?? 0 };
  }

  /** Send what is left, and end. */
  async close(): Promise<void> {
    try {
      await this.flush();
    } finally {
      this.end();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function settled(delivery: Delivery): Promise<Delivery> {
  await delivery.wait();
  return delivery;
}

export type { Receipt };
