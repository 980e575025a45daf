/** What became of the messages of one `send`. */
import { GoQueueError } from "./errors.js";
import type { Parts } from "./frames.js";

/** Where a message was stored. */
export interface Receipt {
  topic: string;
  partition: number;
  /** In the log of the partition; of a delayed message, in the delayed log. */
  offset: number;
  delayed: boolean;
  /** It was stored by an earlier attempt, whose answer was lost. */
  duplicate: boolean;
}

/** A message of a producer, until it is settled. */
export interface Entry {
  readonly parts: Parts;
  readonly size: number;
  readonly delayed: boolean;
  /** The partition that the caller has chosen. */
  readonly fixed: number | undefined;
  readonly delivery: Delivery;
  readonly index: number;
  readonly sinceMs: number;
}

interface Span extends Omit<Receipt, "offset"> {
  firstOffset: number;
  entries: readonly Entry[];
}

/** The messages of one call: `receipts()` waits until all are stored. */
export class Delivery {
  private readonly spans: Span[] = [];
  private readonly failures = new Map<number, GoQueueError>();
  private wake: (() => void) | undefined;
  private settled: Promise<void> | undefined;
  private left: number;
  private isSeen = false;

  constructor(
    readonly topic: string,
    /** The number of messages. */
    readonly count: number,
  ) {
    this.left = count;
  }

  /** Wait until the message is stored. */
  async receipt(): Promise<Receipt> {
    return (await this.receipts())[0] as Receipt;
  }

  /** Wait until all messages are stored or have failed. Throws the first failure; `errors()` has them all. */
  async receipts(): Promise<Receipt[]> {
    for (const error of (await this.errors()).values()) throw error;
    const found = new Array<Receipt>(this.count);
    for (const { entries, firstOffset, ...where } of this.spans) {
      entries.forEach((entry, index) => {
        found[entry.index] = { ...where, offset: firstOffset < 0 ? -1 : firstOffset + index };
      });
    }
    return found;
  }

  /** Wait, and return the errors by the position of the message in the call. */
  async errors(): Promise<ReadonlyMap<number, GoQueueError>> {
    this.isSeen = true;
    await this.wait();
    return this.failures;
  }

  /** Wait without looking at failures. */
  wait(): Promise<void> {
    if (this.left === 0) return Promise.resolve();
    return (this.settled ??= new Promise((resolve) => (this.wake = resolve)));
  }

  /** Whether all messages are stored or have failed. */
  get isSettled(): boolean {
    return this.left === 0;
  }

  /** A failure that the caller has not asked for. */
  get unseenFailure(): GoQueueError | undefined {
    return this.isSeen ? undefined : this.failures.values().next().value;
  }

  /** @internal */
  stored(entries: readonly Entry[], span: Omit<Span, "entries" | "topic">): void {
    this.spans.push({ topic: this.topic, ...span, entries });
    this.settle(entries.length);
  }

  /** @internal */
  failed(entry: Entry, error: GoQueueError): void {
    this.failures.set(entry.index, error);
    this.settle(1);
  }

  private settle(count: number): void {
    this.left -= count;
    if (this.left === 0) this.wake?.();
  }
}

/** Divide entries by their deliveries; `each` gets the entries of one, and the index of the first. */
export function byDelivery(entries: readonly Entry[], each: (some: readonly Entry[], first: number) => void): void {
  let start = 0;
  for (let end = 1; end <= entries.length; end++) {
    if (end < entries.length && entries[end]?.delivery === entries[start]?.delivery) continue;
    each(start === 0 && end === entries.length ? entries : entries.slice(start, end), start);
    start = end;
  }
}
