/** Readers by offset or time, without a group: the broker keeps no position for them. */
import type { ClientReadableStream } from "@grpc/grpc-js";
import { Backoff, type Connection, pause } from "./connection.js";
import { errorOfCall, GoQueueError } from "./errors.js";
import {
  type ConsumeRequest,
  type ConsumeResponse,
  ConsumeServiceService,
  ConsumeStartPosition,
} from "./gen/goqueue/v1/consume.js";
import { TopicServiceService } from "./gen/goqueue/v1/topic.js";
import { Message } from "./message.js";

const WAITING_BYTES_MAX = 16 << 20;

export interface ReaderOptions {
  /** The first message: of the log, after its end, at or after a time, or an offset of each partition. Default: earliest. */
  start?: "earliest" | "latest" | Date | ReadonlyMap<number, number>;
  /** Default: all. */
  partitions?: readonly number[];
  /** `now` ends the loop where the partitions end at its begin. */
  until?: "now";
  /** FIELD OP TEXT, as in `json.order.total>40`; all must be true. */
  filter?: readonly string[];
  /** Include messages of open and aborted transactions. */
  readUncommitted?: boolean;
}

interface PartitionStream {
  partition: number;
  stream: ClientReadableStream<ConsumeResponse> | undefined;
  next: number;
  backoff: Backoff;
  isDone: boolean;
}

/** Messages in the order of each partition: `for await (const message of reader)`. After a failure it goes on where it was. */
export class Reader implements AsyncIterable<Message> {
  private readonly waiting: Message[] = [];
  private waitingBytes = 0;
  private parts: PartitionStream[] = [];
  private wake: (() => void) | undefined;
  private failure: GoQueueError | undefined;
  private readonly stop = new AbortController();

  /** @internal */
  constructor(
    private readonly connection: Connection,
    readonly topic: string,
    private readonly options: ReaderOptions,
  ) {}

  /** The next offset to be read of each partition: where another reader would go on after the messages that were read. */
  readonly positions = new Map<number, number>();

  async *[Symbol.asyncIterator](): AsyncGenerator<Message, void, void> {
    try {
      await this.begin();
      for (;;) {
        while (this.waiting.length === 0 && !this.failure && this.parts.some((part) => !part.isDone)) {
          await new Promise<void>((resolve) => (this.wake = resolve));
        }
        if (this.waiting.length === 0 && this.failure) throw this.failure;
        if (this.waiting.length === 0) return;
        for (const message of this.waiting.splice(0)) {
          this.positions.set(message.partition, message.offset + 1);
          yield message;
        }
        this.waitingBytes = 0;
        for (const part of this.parts) part.stream?.resume();
      }
    } finally {
      this.close();
    }
  }

  private async begin(): Promise<void> {
    const request = { topic: this.topic };
    const found = await this.connection.call(TopicServiceService.listPartitions, request, { repeatable: true });
    const { partitions, start = "earliest" } = this.options;
    for (const one of found.partitions ?? []) {
      const partition = one.partition ?? 0;
      if (partitions !== undefined && !partitions.includes(partition)) continue;
      let next = one.earliest ?? 0;
      if (start === "latest") next = one.latest ?? 0;
      else if (start instanceof Date) {
        const time = { topic: this.topic, partition, time: start };
        const answer = await this.connection.call(TopicServiceService.findOffset, time, { repeatable: true });
        next = answer.offset ?? 0;
      } else if (start !== "earliest") next = start.get(partition) ?? next;
      this.parts.push({ partition, stream: undefined, next, backoff: new Backoff(), isDone: false });
      this.positions.set(partition, next);
    }
    for (const part of this.parts) this.open(part);
  }

  private request({ partition, next }: PartitionStream): ConsumeRequest {
    return {
      topic: this.topic,
      partitions: [partition],
      startPosition: ConsumeStartPosition.OFFSET,
      startOffset: next,
      untilEnd: this.options.until === "now",
      filter: [...(this.options.filter ?? [])],
      readUncommitted: this.options.readUncommitted ?? false,
    };
  }

  private open(part: PartitionStream): void {
    let stream: ClientReadableStream<ConsumeResponse>;
    try {
      stream = this.connection.read(ConsumeServiceService.consume, this.request(part));
    } catch (failure) {
      this.fail(errorOfCall(failure));
      return;
    }
    part.stream = stream;
    stream.on("data", ({ payload }: ConsumeResponse) => {
      if (part.stream !== stream) return; // it is read again
      part.backoff.reset();
      if (payload?.$case !== "messages") return;
      for (const found of payload.value.messages ?? []) {
        const message = new Message(found);
        this.waiting.push(message);
        this.waitingBytes += message.value.length + message.key.length + 100;
      }
      part.next = payload.value.nextOffset ?? part.next;
      if (this.waitingBytes > WAITING_BYTES_MAX) for (const one of this.parts) one.stream?.pause();
      this.wake?.();
    });
    stream.on("error", (failure) => {
      if (part.stream === stream) this.lost(part, errorOfCall(failure));
    });
    stream.on("end", () => {
      part.isDone ||= this.options.until === "now" && part.stream === stream;
      this.wake?.();
    });
  }

  private lost(part: PartitionStream, error: GoQueueError): void {
    if (this.stop.signal.aborted) return;
    part.stream = undefined;
    if (!error.isTransient) {
      this.fail(error);
      return;
    }
    void pause(part.backoff.next(error), this.stop.signal).then(() => this.open(part), () => undefined);
  }

  private fail(error: GoQueueError): void {
    this.failure = error;
    this.wake?.();
  }

  close(): void {
    this.stop.abort();
    for (const part of this.parts) {
      part.isDone = true;
      part.stream?.cancel();
    }
    this.wake?.();
  }
}
