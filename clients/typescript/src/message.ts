/** Messages as they are read. */
import type { Message as StoredMessage } from "./gen/goqueue/v1/types.js";
import type { Priority } from "./frames.js";

const PRIORITIES: readonly Priority[] = ["critical", "high", "normal", "low", "background"];

/** A message of a topic. */
export class Message {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** When the broker appended it. */
  readonly timestamp: Date;
  readonly key: Buffer;
  readonly value: Buffer;
  /** Headers that are text; of a repeated name, the first. */
  readonly headers: Readonly<Record<string, string>>;
  /** All headers in their order, if one is not text or a name repeats; otherwise empty. */
  readonly rawHeaders: readonly { name: string; value: Buffer }[];
  readonly priority: Priority;
  readonly isTombstone: boolean;

  constructor(found: StoredMessage) {
    this.topic = found.topic ?? "";
    this.partition = found.partition ?? 0;
    this.offset = found.offset ?? 0;
    this.timestamp = found.timestamp ?? new Date(0);
    this.key = found.key ?? EMPTY;
    this.value = found.value ?? EMPTY;
    this.headers = found.headers ?? {};
    this.rawHeaders = (found.rawHeaders ?? []).map((one) => ({ name: one.name ?? "", value: one.value ?? EMPTY }));
    this.priority = PRIORITIES[found.priority ?? 0] ?? "normal";
    this.isTombstone = found.tombstone ?? false;
  }

  get text(): string {
    return this.value.toString();
  }

  json<T = unknown>(): T {
    return JSON.parse(this.text) as T;
  }
}

const EMPTY = Buffer.alloc(0);
