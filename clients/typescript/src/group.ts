/** Members of groups: messages with leases, acks, and events of the assignment. */
import { EventEmitter } from "node:events";
import type { ClientReadableStream } from "@grpc/grpc-js";
import { Backoff, type Connection, pause } from "./connection.js";
import { errorOfCall, GoQueueError } from "./errors.js";
import {
  type ConsumeResponse,
  ConsumeServiceService,
  ConsumeStartPosition,
  RebalanceType,
  type SubscribeRequest,
} from "./gen/goqueue/v1/consume.js";
import type { Message as StoredMessage } from "./gen/goqueue/v1/types.js";
import { Message } from "./message.js";
import { duration, Settler } from "./settling.js";

/** Bytes that wait in this process, beyond which the stream is paused. */
const WAITING_BYTES_MAX = 16 << 20;

export interface GroupOptions {
  /** Where to start in partitions that the group never read. Default: earliest. */
  start?: "earliest" | "latest";
  /** Maximum number of unsettled messages of this member. Default: 1,000. */
  maxInFlight?: number;
  /** How long a message is leased. Default: the setting of the group, the topic or the broker. */
  visibilityTimeoutMs?: number;
  sessionTimeoutMs?: number;
  /** A name for operators. */
  name?: string;
}

export interface TopicPartition {
  topic: string;
  partition: number;
}

/** A message that is leased to this member. Settle it once: ack, nack or reject. */
export class LeasedMessage extends Message {
  /** Deliveries, with this one. */
  readonly attempt: number;
  /** Names this delivery. */
  readonly receiptHandle: string;

  /** @internal */
  constructor(
    found: StoredMessage,
    private readonly settler: Settler,
  ) {
    super(found);
    this.attempt = (found.retryCount ?? 0) + 1;
    this.receiptHandle = found.receiptHandle ?? "";
  }

  /** It is processed. Acks that are made together travel together. */
  ack(): Promise<void> {
    return this.settler.ack(this.receiptHandle);
  }

  /** Deliver it again. Returns false if this was the last attempt: then it is in the dead-letter queue. */
  nack(options?: { delayMs?: number; reason?: string }): Promise<boolean> {
    return this.settler.nack(this.receiptHandle, options);
  }

  /** Move it to the dead-letter queue. */
  reject(reason?: string): Promise<void> {
    return this.settler.reject(this.receiptHandle, reason);
  }

  /** Lease it for so long from now. Returns the new deadline. */
  extend(ms: number): Promise<Date | undefined> {
    return this.settler.extend(this.receiptHandle, ms);
  }

  /** Deliver it again at once, without counting a failure. */
  async release(): Promise<void> {
    await this.settler.extend(this.receiptHandle, 0);
  }
}

export interface GroupEvents {
  /** All partitions of this member, at the begin and after changes. */
  assignment: [partitions: TopicPartition[], generation: number];
  assigned: [partitions: TopicPartition[]];
  /** These go to other members: settle their messages. */
  revoked: [partitions: TopicPartition[]];
  /** The connection was lost, and is made again. */
  reconnecting: [error: GoQueueError];
}

/**
 * A member of a group: `for await (const message of group)`. It joins with the first read, and leaves at the end of the
 * loop or with `close()`; then messages that are not settled go to other members at once.
 */
export class GroupConsumer extends EventEmitter<GroupEvents> implements AsyncIterable<LeasedMessage> {
  /** The partitions of this member. */
  assignment: readonly TopicPartition[] = [];
  private memberId = "";
  private stream: ClientReadableStream<ConsumeResponse> | undefined;
  private waiting: LeasedMessage[] = [];
  private waitingBytes = 0;
  private wake: (() => void) | undefined;
  private failure: GoQueueError | undefined;
  private wasLost = false;
  private isStarted = false;
  private isClosed = false;
  private readonly backoff = new Backoff();
  private readonly settler: Settler;
  private readonly stop = new AbortController();

  /** @internal */
  constructor(
    private readonly connection: Connection,
    readonly group: string,
    readonly topics: readonly string[],
    private readonly options: GroupOptions,
  ) {
    super();
    this.settler = new Settler(connection);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<LeasedMessage, void, void> {
    for await (const batch of this.batches()) {
      while (batch.length > 0) yield batch.shift() as LeasedMessage;
    }
  }

  /** Yield what has arrived, at most so many messages at a time. */
  async *batches(max = 1000): AsyncGenerator<LeasedMessage[], void, void> {
    try {
      this.start();
      for (;;) {
        while (this.waiting.length === 0 && !this.isClosed && !this.failure) {
          await new Promise<void>((resolve) => (this.wake = resolve));
        }
        if (this.isClosed) return;
        if (this.waiting.length === 0) throw this.failure as GoQueueError;
        const batch = this.waiting.splice(0, max);
        this.count(batch, -1);
        yield batch;
      }
    } finally {
      await this.close();
    }
  }

  private start(): void {
    if (this.isStarted) throw new GoQueueError("request_invalid", "this member is being read already");
    if (this.isClosed) throw new GoQueueError("client_closed", "this member has left its group", { hint: "make another" });
    this.isStarted = true;
    this.subscribe();
  }

  private request(): SubscribeRequest {
    const { start, maxInFlight, visibilityTimeoutMs, sessionTimeoutMs, name } = this.options;
    return {
      groupId: this.group,
      topics: [...this.topics],
      consumerId: name ?? "typescript",
      startPosition: start === "latest" ? ConsumeStartPosition.LATEST : ConsumeStartPosition.EARLIEST,
      maxInFlight: maxInFlight ?? 1000,
      memberId: this.memberId,
      ...(visibilityTimeoutMs === undefined ? {} : { visibilityTimeout: duration(visibilityTimeoutMs) }),
      ...(sessionTimeoutMs === undefined ? {} : { sessionTimeout: duration(sessionTimeoutMs) }),
    };
  }

  private subscribe(): void {
    let stream: ClientReadableStream<ConsumeResponse>;
    try {
      stream = this.connection.read(ConsumeServiceService.subscribe, this.request());
    } catch (failure) {
      this.fail(errorOfCall(failure));
      return;
    }
    this.stream = stream;
    stream.on("data", (response: ConsumeResponse) => this.take(response));
    stream.on("error", (failure) => this.lost(stream, errorOfCall(failure)));
    stream.on("end", () => this.lost(stream, new GoQueueError("broker_unreachable", "the broker has ended the stream")));
  }

  private take({ payload }: ConsumeResponse): void {
    this.backoff.reset();
    if (payload?.$case === "messages") {
      const messages = (payload.value.messages ?? []).map((found) => new LeasedMessage(found, this.settler));
      if (this.wasLost) this.forgetFormer(messages);
      for (const message of messages) this.waiting.push(message);
      this.count(messages, 1);
      this.wake?.();
    } else if (payload?.$case === "assignment") {
      this.memberId = payload.value.memberId ?? "";
      this.assignment = places(payload.value.partitions);
      this.emit("assignment", [...this.assignment], payload.value.generation ?? 0);
    } else if (payload?.$case === "rebalance") {
      const name = payload.value.type === RebalanceType.REVOKE ? "revoked" : "assigned";
      this.emit(name, places(payload.value.partitions));
    }
  }

  /** Drop messages that wait here since before the connection was lost, and have been delivered anew. */
  private forgetFormer(messages: readonly LeasedMessage[]): void {
    const arrived = new Set(messages.map(reference));
    const former = this.waiting.filter((one) => arrived.has(reference(one)));
    if (former.length === 0) return;
    this.waiting = this.waiting.filter((one) => !arrived.has(reference(one)));
    this.count(former, -1);
  }

  private count(messages: readonly LeasedMessage[], sign: 1 | -1): void {
    for (const message of messages) this.waitingBytes += sign * (message.value.length + message.key.length + 100);
    if (this.waitingBytes > WAITING_BYTES_MAX) this.stream?.pause();
    else if (sign < 0) this.stream?.resume();
  }

  private lost(stream: ClientReadableStream<ConsumeResponse>, error: GoQueueError): void {
    if (stream !== this.stream || this.isClosed) return;
    this.stream = undefined;
    this.wasLost = true;
    if (!error.isTransient && !REJOIN.has(error.code)) {
      this.fail(error);
      return;
    }
    this.emit("reconnecting", error);
    void pause(this.backoff.next(error), this.stop.signal).then(() => this.subscribe(), () => undefined);
  }

  private fail(error: GoQueueError): void {
    this.failure = error;
    this.wake?.();
  }

  /** Leave the group. Acks that are under way are completed. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    await this.settler.idle();
    this.isClosed = true;
    this.stop.abort();
    this.wake?.();
    const { stream } = this;
    if (stream === undefined) return;
    await new Promise<void>((resolve) => {
      stream.on("error", () => resolve()).on("end", () => resolve()).on("close", () => resolve());
      stream.cancel();
      stream.resume();
      if (stream.closed || stream.destroyed) resolve();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Errors that a new call of the same member ends. */
const REJOIN = new Set<string>(["member_unknown", "generation_stale"]);

function reference(message: LeasedMessage): string {
  return `${message.topic}/${message.partition}/${message.offset}`;
}

function places(
  found: { topic?: string | undefined; partition?: number | undefined }[] | undefined,
): TopicPartition[] {
  return (found ?? []).map(({ topic = "", partition = 0 }) => ({ topic, partition }));
}
