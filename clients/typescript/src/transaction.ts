/**
 * Transactions: messages of many topics, and acks and offsets of groups, that count together or not at all.
 *
 * What must stay true: one producer id and epoch stand for one transaction. The next one has an epoch from the answer to
 * the end, or from a new `InitProducer`: so messages that were believed lost cannot become a part of it.
 */
import type { Connection } from "./connection.js";
import type { Delivery } from "./delivery.js";
import { errorOfCall, errorOfPart, GoQueueError } from "./errors.js";
import type { OutgoingMessage } from "./frames.js";
import { AdminServiceService } from "./gen/goqueue/v1/admin.js";
import { TransactionServiceService } from "./gen/goqueue/v1/transaction.js";
import type { LeasedMessage } from "./group.js";
import { ProducerCore, type ProducerOptions } from "./producer.js";
import type { Identity } from "./topic-sender.js";

export interface TransactionalOptions extends ProducerOptions {
  /** Time without a sign of life after which the broker aborts a transaction. Default: 60,000. */
  transactionTimeoutMs?: number;
}

interface OffsetCommit {
  group: string;
  offsets: { topic: string; partition: number; offset: number }[];
}

/** An open transaction; the callback of `producer.transaction` gets it. */
export class Transaction {
  /** @internal */
  readonly acked: LeasedMessage[] = [];
  /** @internal */
  readonly offsets: OffsetCommit[] = [];
  /** @internal */
  isOpen = true;

  /** @internal */
  constructor(
    readonly id: string,
    private readonly publish: (topic: string, messages: readonly OutgoingMessage[]) => Promise<Delivery>,
  ) {}

  send(topic: string, message: OutgoingMessage): Promise<Delivery> {
    return this.sendMany(topic, [message]);
  }

  async sendMany(topic: string, messages: readonly OutgoingMessage[]): Promise<Delivery> {
    this.check();
    return await this.publish(topic, messages);
  }

  /** Acknowledge messages with the commit. If it is aborted, they are delivered again. */
  ack(given: LeasedMessage | readonly LeasedMessage[]): void {
    this.check();
    if (Array.isArray(given)) for (const one of given as LeasedMessage[]) this.acked.push(one);
    else this.acked.push(given as LeasedMessage);
  }

  /** With the commit, commit offsets of a group. */
  commitOffsets(group: string, offsets: { topic: string; partition: number; offset: number }[]): void {
    this.check();
    this.offsets.push({ group, offsets });
  }

  private check(): void {
    if (!this.isOpen) throw new GoQueueError("transaction_not_open", `transaction ${this.id} is over`);
  }
}

/** A producer whose messages are published in transactions, one at a time. */
export class TransactionalProducer extends ProducerCore {
  readonly isTransactional = true;
  private identity: Identity | undefined;
  private fenced: GoQueueError | undefined;
  private current: Transaction | undefined;
  private readonly timeoutMs: number;

  constructor(
    connection: Connection,
    readonly transactionalId: string,
    options: TransactionalOptions = {},
  ) {
    super(connection, options);
    this.timeoutMs = options.transactionTimeoutMs ?? 60_000;
  }

  /**
   * Run `work` in a transaction: commit when it returns, abort when it throws. Another producer with the same
   * transactional id fences this one.
   */
  async transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    this.refuseIfClosed();
    if (this.current) throw new GoQueueError("request_invalid", `producer ${this.transactionalId} has an open transaction`);
    if (this.fenced) throw this.fenced;
    this.current = new Transaction("", () => Promise.reject(new Error()));
    try {
      return await this.run(work);
    } catch (failure) {
      const error = failure instanceof GoQueueError ? failure : undefined;
      if (error?.code === "producer_fenced") this.fenced = error;
      throw failure;
    } finally {
      this.current = undefined;
    }
  }

  private async run<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const identity = (this.identity ??= await this.initialize());
    this.failure = undefined;
    for (const sender of this.senders.values()) sender.become(identity);
    const id = `${identity.producerId}-${identity.epoch}`;
    const transaction = new Transaction(id, (topic, messages) => this.take(topic, messages));
    this.current = transaction;
    const beats = setInterval(() => this.beat(identity), this.timeoutMs / 3);
    let result: T;
    try {
      try {
        result = await work(transaction);
      } finally {
        transaction.isOpen = false;
        await this.drain();
      }
      if (this.failure) throw this.failure;
      await this.settle(transaction, identity);
    } catch (failure) {
      clearInterval(beats);
      await this.abort(transaction, identity, failure);
      throw failure;
    }
    clearInterval(beats);
    await this.commit(identity);
    return result;
  }

  private async drain(): Promise<void> {
    for (const delivery of this.pending) await delivery.wait();
    this.pending.clear();
  }

  private async settle(transaction: Transaction, identity: Identity): Promise<void> {
    if (transaction.acked.length === 0 && transaction.offsets.length === 0) return;
    const fields = this.identityFields(identity);
    await this.connection.call(TransactionServiceService.beginTransaction, fields, { repeatable: true });
    if (transaction.acked.length > 0) {
      const receipts = transaction.acked.map((message) => message.receiptHandle);
      const request = { ...fields, receipts };
      const answer = await this.connection.call(TransactionServiceService.addAcks, request, { repeatable: true });
      const refused = answer.failures?.[0]?.error; // another member may process that message
      if (refused) throw errorOfPart(refused);
    }
    for (const one of transaction.offsets) {
      await this.connection.call(TransactionServiceService.addOffsets, { ...fields, ...one }, { repeatable: true });
    }
  }

  private async commit(identity: Identity): Promise<void> {
    this.identity = undefined; // unknown, until the answer names the next one
    try {
      const fields = this.identityFields(identity);
      const next = await this.connection.call(TransactionServiceService.commitTransaction, fields, { repeatable: true });
      this.identity = { producerId: next.producerId ?? 0, epoch: next.epoch ?? 0 };
    } catch (failure) {
      const error = errorOfCall(failure);
      if (!error.isTransient) throw error;
      const sentence = `whether transaction ${identity.producerId}-${identity.epoch} was committed is not known`;
      throw new GoQueueError(error.code, `${sentence}: ${error.message}`, { ...error, unsure: true, cause: error });
    }
  }

  private async abort(transaction: Transaction, identity: Identity, cause: unknown): Promise<void> {
    this.identity = undefined;
    const reason = (cause instanceof Error ? cause.message : String(cause)).slice(0, 1000);
    const isOurs = cause instanceof GoQueueError;
    try {
      const request = { ...this.identityFields(identity), reason };
      const next = await this.connection.call(TransactionServiceService.abortTransaction, request, { repeatable: true });
      this.identity = { producerId: next.producerId ?? 0, epoch: next.epoch ?? 0 };
    } catch {
      // Nothing had begun, or its timeout ends it; the next transaction asks for another epoch.
    }
    const again = transaction.acked.map((message) => (isOurs ? message.release() : message.nack({ reason })));
    await Promise.allSettled(again);
  }

  private identityFields(identity: Identity): { transactionalId: string; producerId: number; epoch: number } {
    return { transactionalId: this.transactionalId, ...identity };
  }

  private beat(identity: Identity): void {
    const path = `/producers/${identity.producerId}/heartbeat`;
    const body = JSON.stringify({ transactional_id: this.transactionalId, epoch: identity.epoch });
    this.connection.call(AdminServiceService.call, { method: "POST", path, body }).catch(() => undefined);
  }

  private async initialize(): Promise<Identity> {
    const request = { transactionalId: this.transactionalId, transactionTimeoutMs: this.timeoutMs };
    const found = await this.connection.call(TransactionServiceService.initProducer, request, { repeatable: true });
    return { producerId: found.producerId ?? 0, epoch: found.epoch ?? 0 };
  }

  /** @internal */
  identify(): Promise<Identity> {
    if (this.identity) return Promise.resolve(this.identity);
    return Promise.reject(new GoQueueError("transaction_not_open", "no transaction is open"));
  }

  /** End. A transaction that is open is aborted by the broker. */
  async close(): Promise<void> {
    await this.drain();
    this.end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
