/**
 * Sends the messages of one topic: one request at a time, while the next one gathers.
 *
 * What must stay true: a sealed batch is sent with the same producer, sequence and count, byte for byte, until it is
 * stored or fails, and nothing else of its partition is sealed before that. The broker knows its retries by these marks,
 * so a batch whose answer was lost is stored once. Only a batch that the broker certainly does not have is sealed anew.
 */
import { BatchStream } from "./batch-stream.js";
import { Backoff, type Connection, pause } from "./connection.js";
import { byDelivery, type Entry } from "./delivery.js";
import { errorOfCall, errorOfPart, GoQueueError } from "./errors.js";
import { encodeSection } from "./frames.js";
import { AckMode, type PublishBatchResponse, type PublishResult } from "./gen/goqueue/v1/publish.js";
import { TopicServiceService } from "./gen/goqueue/v1/topic.js";
import { type Hash, hashFunction, partitionOf } from "./partitioner.js";

const SEQUENCES = 2 ** 31;
/** Refusals of single messages: the others of their batch can be stored. */
const OF_MESSAGES = new Set<string>(["schema_violation", "message_too_large"]);

export interface Identity {
  producerId: number;
  epoch: number;
}

/** The part of a producer that its topics share. */
export interface SenderHost {
  readonly connection: Connection;
  readonly requestBytes: number;
  readonly deliveryTimeoutMs: number;
  readonly acks: "leader" | "all";
  readonly isTransactional: boolean;
  /** Return the identity for batches from now on. */
  identify(): Promise<Identity>;
  /** Called for what is stored or has failed. */
  settled(entries: readonly Entry[], error?: GoQueueError): void;
}

export interface TopicFacts {
  partitions: number;
  hash: Hash;
  messageBytesMax: number;
}

interface Sealed {
  queue: Queue;
  entries: Entry[];
  identity: Identity;
  sequence: number;
  section: Buffer;
  placedBy: number;
  unsure: boolean;
}

/** What waits for one partition, or for its delayed log. */
interface Queue {
  partition: number;
  delayed: boolean;
  entries: Entry[];
  sequence: number;
  /** The most messages of the next batch, while the invalid ones of a refused batch are looked for. */
  most: number;
}

export class TopicSender {
  private readonly queues = new Map<number, Queue>();
  private readonly stream: BatchStream;
  private readonly backoff = new Backoff();
  private facts: Promise<TopicFacts> | undefined;
  private known: TopicFacts | undefined;
  private placedBy = 0;
  /** The number of partitions that the topic has now, until what waits is placed by it. */
  private recounted = 0;
  private sticky = 0;
  private identity: Identity | undefined;
  private running: Promise<void> | undefined;

  constructor(
    private readonly host: SenderHost,
    private readonly topic: string,
  ) {
    this.stream = new BatchStream(host.connection);
  }

  /** Return the facts of the topic, from memory if they are known. */
  loadFacts(): Promise<TopicFacts> {
    this.facts ??= this.describe().catch((failure: unknown) => {
      this.facts = undefined;
      throw errorOfCall(failure);
    });
    return this.facts;
  }

  /** Ask the broker again: partitions may have been added. */
  reloadFacts(): Promise<TopicFacts> {
    this.facts = undefined;
    return this.loadFacts();
  }

  private async describe(): Promise<TopicFacts> {
    const request = { topic: this.topic };
    const found = await this.host.connection.call(TopicServiceService.describeTopic, request, { repeatable: true });
    const config = found.config ?? {};
    this.known = {
      partitions: found.partitions ?? 0,
      hash: hashFunction(JSON.parse(config.partitioner ?? '"murmur3"') as string),
      messageBytesMax: JSON.parse(config.max_message_bytes ?? "1048576") as number,
    };
    this.placedBy ||= this.known.partitions; // later ones only when nothing sealed is left
    return this.known;
  }

  add(entry: Entry): void {
    this.place(entry);
    this.running ??= this.run();
  }

  /** Use another identity, whose sequences begin at 0. */
  become(identity: Identity | undefined): void {
    this.identity = identity;
    for (const queue of this.queues.values()) queue.sequence = 0;
  }

  close(): void {
    this.stream.close();
  }

  private place(entry: Entry): void {
    let partition = entry.fixed;
    if (partition === undefined) {
      const { key } = entry.parts;
      partition = key.length ? partitionOf(key, this.placedBy, (this.known as TopicFacts).hash) : this.sticky;
    }
    this.queue(partition, entry.delayed).entries.push(entry);
  }

  private queue(partition: number, delayed: boolean): Queue {
    const place = partition * 2 + (delayed ? 1 : 0);
    let queue = this.queues.get(place);
    if (queue === undefined) {
      queue = { partition, delayed, entries: [], sequence: 0, most: Infinity };
      this.queues.set(place, queue);
    }
    return queue;
  }

  private waiting(): Entry[] {
    return [...this.queues.values()].flatMap((queue) => queue.entries);
  }

  private async run(): Promise<void> {
    await new Promise(setImmediate); // what is sent in one turn goes together
    while ([...this.queues.values()].some((queue) => queue.entries.length > 0)) {
      try {
        this.identity ??= await this.host.identify();
      } catch (failure) {
        await this.unidentified(errorOfCall(failure));
        continue;
      }
      let request = this.seal(this.identity);
      while (request.length > 0) request = await this.attempt(request);
    }
    this.running = undefined; // in the same turn as the check, so that no message comes between them
  }

  private async unidentified(error: GoQueueError): Promise<void> {
    const waiting = this.waiting();
    const late = Date.now() - (waiting[0]?.sinceMs ?? 0) > this.host.deliveryTimeoutMs;
    if (error.isTransient && !late && !this.host.isTransactional) {
      await pause(this.backoff.next(error));
      return;
    }
    for (const queue of this.queues.values()) queue.entries = [];
    this.fail(waiting, error);
  }

  private seal(identity: Identity): Sealed[] {
    const sealed: Sealed[] = [];
    let room = this.host.requestBytes;
    for (const [place, queue] of [...this.queues]) {
      if (queue.entries.length === 0) continue;
      if (room <= 0) break;
      let count = 0;
      while (count < queue.entries.length && count < queue.most && (room > 0 || count === 0)) {
        room -= (queue.entries[count++] as Entry).size;
      }
      const entries = queue.entries;
      const taken = count === entries.length ? entries : entries.slice(0, count);
      queue.entries = count === entries.length ? [] : entries.slice(count);
      const { sequence, partition, delayed } = queue;
      const parts = taken.map((entry) => entry.parts);
      const section = encodeSection(partition, delayed, parts, { ...identity, sequence });
      sealed.push({ queue, entries: taken, identity, sequence, section, placedBy: this.placedBy, unsure: false });
      queue.sequence = (sequence + count) % SEQUENCES;
      this.queues.delete(place); // to the end: every queue gets its turn
      this.queues.set(place, queue);
    }
    this.sticky = this.placedBy ? (this.sticky + 1) % this.placedBy : 0;
    return sealed;
  }

  /** Send sealed batches, and return those that must be sent again. */
  private async attempt(request: Sealed[]): Promise<Sealed[]> {
    let results: (GoQueueError | PublishResult)[];
    try {
      const answer = await this.stream.send(this.message(request), this.host.connection.timeoutMs);
      results = resultsOf(answer, request.length);
    } catch (failure) {
      results = request.map(() => errorOfCall(failure));
    }
    const again: Sealed[] = [];
    let refusal: GoQueueError | undefined;
    results.forEach((result, index) => {
      const batch = request[index] as Sealed;
      if (!(result instanceof GoQueueError)) {
        this.stored(batch, result);
        return;
      }
      if (this.refused(batch, result)) again.push(batch);
      refusal = result;
    });
    if (this.recounted > 0 && again.length === 0) this.placeAgain();
    if (again.length > 0) await pause(this.backoff.next(refusal as GoQueueError));
    else this.backoff.reset();
    return again;
  }

  private message(request: Sealed[]) {
    const identity = (request[0] as Sealed).identity;
    const inTransaction = this.host.isTransactional
      ? { producerId: identity.producerId, producerEpoch: identity.epoch, begin: true }
      : {};
    return {
      topic: this.topic,
      frames: Buffer.concat(request.map((batch) => batch.section)),
      partitions: (request[0] as Sealed).placedBy,
      ackMode: this.host.acks === "all" ? AckMode.ALL : AckMode.LEADER,
      ...inTransaction,
    };
  }

  private stored(batch: Sealed, result: PublishResult): void {
    const firstOffset = result.firstOffset ?? 0;
    const { partition, delayed } = batch.queue;
    batch.queue.most = Infinity;
    byDelivery(batch.entries, (some, first) => {
      some[0]?.delivery.stored(some, {
        partition,
        delayed,
        duplicate: result.duplicate ?? false,
        firstOffset: firstOffset < 0 ? -1 : firstOffset + first,
      });
    });
    this.host.settled(batch.entries);
  }

  /** Return whether the batch must be sent again as it is. */
  private refused(batch: Sealed, error: GoQueueError): boolean {
    if (error.isTransient || error.code === "checksum_mismatch") {
      batch.unsure ||= error.unsure;
      if (Date.now() - (batch.entries[0] as Entry).sinceMs <= this.host.deliveryTimeoutMs) return true;
      this.become(this.host.isTransactional ? this.identity : undefined);
      this.fail(batch.entries, expired(batch, this.topic, error));
      return false;
    }
    if (error.code === "partition_count_stale" && this.recount(batch, error)) return false;
    if (isCertainlyNotStored(batch, error) && !this.host.isTransactional) {
      if (this.identity === batch.identity) this.become(undefined);
      batch.queue.entries = [...batch.entries, ...batch.queue.entries];
      return false;
    }
    if (OF_MESSAGES.has(error.code)) {
      batch.queue.sequence = batch.sequence; // nothing of it is stored
      if (batch.entries.length > 1) {
        batch.queue.most = Math.ceil(batch.entries.length / 2);
        batch.queue.entries = [...batch.entries, ...batch.queue.entries];
        return false;
      }
      batch.queue.most = Infinity;
    } else if (!this.host.isTransactional) {
      this.become(undefined);
    }
    if (error.code === "topic_not_found" || error.code === "partition_not_found") this.facts = undefined;
    this.fail(batch.entries, error);
    return false;
  }

  /** Take back a batch that was placed by a former number of partitions. Messages in `pieces` are stored. */
  private recount(batch: Sealed, error: GoQueueError): boolean {
    const count = Number(error.details.partitions);
    if (!Number.isInteger(count) || count < 1 || count === batch.placedBy) return false;
    const pieces = JSON.parse(error.details.pieces || "[]") as [number, number][];
    const stored = pieces.reduce((sum, [first, end]) => sum + end - first, 0);
    batch.queue.sequence = (batch.sequence + stored) % SEQUENCES;
    if (stored > 0) {
      const done = { ...batch, entries: batch.entries.slice(0, stored) };
      this.stored(done, { firstOffset: pieces[0]?.[0] ?? 0 });
    }
    batch.queue.entries = [...batch.entries.slice(stored), ...batch.queue.entries];
    this.facts = undefined;
    this.recounted = count;
    return true;
  }

  /** Place everything that waits by the new number of partitions; nothing is sealed now. */
  private placeAgain(): void {
    this.placedBy = this.recounted;
    this.recounted = 0;
    const waiting = this.waiting();
    for (const queue of this.queues.values()) queue.entries = [];
    for (const entry of waiting) this.place(entry);
  }

  private fail(entries: readonly Entry[], error: GoQueueError): void {
    for (const entry of entries) entry.delivery.failed(entry, error);
    this.host.settled(entries, error);
  }
}

function resultsOf(answer: PublishBatchResponse, count: number): (GoQueueError | PublishResult)[] {
  if (answer.error) return Array.from({ length: count }, () => errorOfPart(answer.error as never));
  const found = answer.results ?? [];
  if (found.length !== count) {
    throw new GoQueueError("unknown", `the broker has sent ${found.length} results for ${count} batches`);
  }
  return found.map((result) => (result.error ? errorOfPart(result.error) : result));
}

function isCertainlyNotStored(batch: Sealed, error: GoQueueError): boolean {
  if (error.code === "unknown_producer") return true;
  if (error.code !== "sequence_out_of_order") return false;
  const expected = error.details.expected;
  if (expected !== undefined && expected !== "null") {
    const ahead = (batch.sequence - Number(expected) + SEQUENCES) % SEQUENCES;
    return ahead > 0 && ahead < SEQUENCES / 2;
  }
  return error.details.forgotten === "true" && !batch.unsure;
}

function expired(batch: Sealed, topic: string, cause: GoQueueError): GoQueueError {
  const count = batch.entries.length;
  const what = `${count} message${count === 1 ? "" : "s"} for ${topic}/${batch.queue.partition}`;
  return new GoQueueError("request_timed_out", `${what} not stored in time: ${cause.message}`, {
    cause,
    unsure: batch.unsure,
    ...(batch.unsure ? { hint: "may have been stored" } : {}),
  });
}
