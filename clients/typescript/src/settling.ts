/** Acks that gather while others are under way, and the other ways to settle a message. */
import type { Connection } from "./connection.js";
import { errorOfCall, errorOfPart, GoQueueError } from "./errors.js";
import { AckServiceService } from "./gen/goqueue/v1/ack.js";

const RECEIPTS_MAX = 10_000;

interface Waiting {
  receipt: string;
  resolve: () => void;
  reject: (error: GoQueueError) => void;
}

export function duration(ms: number): { seconds: number; nanos: number } {
  if (!Number.isFinite(ms) || ms < 0) throw new GoQueueError("request_invalid", `${ms} ms is not a time from now on`);
  return { seconds: Math.floor(ms / 1000), nanos: Math.round((ms % 1000) * 1e6) };
}

export class Settler {
  private waiting: Waiting[] = [];
  private running: Promise<void> | undefined;

  constructor(private readonly connection: Connection) {}

  ack(receipt: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ receipt, resolve, reject });
      this.running ??= this.run();
    });
  }

  /** Wait until no ack is under way. */
  async idle(): Promise<void> {
    await this.running;
  }

  private async run(): Promise<void> {
    await Promise.resolve();
    while (this.waiting.length > 0) {
      const some = this.waiting.splice(0, RECEIPTS_MAX);
      const request = { receiptHandles: some.map((one) => one.receipt) };
      try {
        // An ack of which the answer was lost is repeated.
        const answer = await this.connection.call(AckServiceService.batchAck, request, { repeatable: true });
        const failures = new Map((answer.failures ?? []).map((one) => [one.receiptHandle, one.error]));
        for (const { receipt, resolve, reject } of some) {
          const error = failures.get(receipt);
          if (error) reject(errorOfPart(error));
          else resolve();
        }
      } catch (failure) {
        const error = errorOfCall(failure);
        for (const { reject } of some) reject(error);
      }
    }
    this.running = undefined; // in the same turn as the check, so that no ack comes between them
  }

  /** Return whether it will be delivered again; false if it is in the dead-letter queue now. */
  async nack(receiptHandle: string, options: { delayMs?: number; reason?: string } = {}): Promise<boolean> {
    const delay = options.delayMs === undefined ? {} : { visibilityTimeout: duration(options.delayMs) };
    const reason = options.reason === undefined ? {} : { reason: options.reason };
    const request = { receiptHandle, ...delay, ...reason };
    return (await this.connection.call(AckServiceService.nack, request)).success ?? false;
  }

  async reject(receiptHandle: string, reason?: string): Promise<void> {
    await this.connection.call(AckServiceService.reject, { receiptHandle, ...(reason === undefined ? {} : { reason }) });
  }

  async extend(receiptHandle: string, ms: number): Promise<Date | undefined> {
    const request = { receiptHandle, visibilityTimeout: duration(ms) };
    const answer = await this.connection.call(AckServiceService.extendVisibility, request, { repeatable: true });
    return answer.newDeadline;
  }
}
