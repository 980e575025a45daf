/** Topics and their settings. */
import type { CallOptions, Connection } from "./connection.js";
import { errorOfCall } from "./errors.js";
import { TopicServiceService } from "./gen/goqueue/v1/topic.js";

export interface TopicInfo {
  name: string;
  partitions: number;
  messages: number;
  bytes: number;
  /** By partition: the first offset, and the one after the last. */
  offsets: Map<number, { earliest: number; latest: number }>;
  settings: Record<string, unknown>;
}

export class Topics {
  /** @internal */
  constructor(private readonly connection: Connection) {}

  /** Create a topic. Returns false if it existed, which `existOk` allows. */
  async create(
    name: string,
    options: { partitions?: number; settings?: Record<string, unknown>; existOk?: boolean } & CallOptions = {},
  ): Promise<boolean> {
    const { partitions, settings, existOk = false, ...call } = options;
    const request = {
      name,
      settings: encoded(settings ?? {}),
      ...(partitions === undefined ? {} : { numPartitions: partitions }),
    };
    try {
      // Only if it may exist: else a retry after a lost answer would report the topic that this call has made.
      const repeatable = existOk;
      return (await this.connection.call(TopicServiceService.createTopic, request, { ...call, repeatable })).created ?? true;
    } catch (failure) {
      const error = errorOfCall(failure);
      if (existOk && error.code === "topic_exists") return false;
      throw error;
    }
  }

  async list(options: CallOptions = {}): Promise<string[]> {
    const answer = await this.connection.call(TopicServiceService.listTopics, {}, { ...options, repeatable: true });
    return answer.topics ?? [];
  }

  async describe(topic: string, options: CallOptions = {}): Promise<TopicInfo> {
    const call = { ...options, repeatable: true };
    const found = await this.connection.call(TopicServiceService.describeTopic, { topic }, call);
    const offsets = Object.entries(found.partitionOffsets ?? {}).map(
      ([partition, one]) => [Number(partition), { earliest: one.earliest ?? 0, latest: one.latest ?? 0 }] as const,
    );
    return {
      name: found.name ?? topic,
      partitions: found.partitions ?? 0,
      messages: found.totalMessages ?? 0,
      bytes: found.totalSizeBytes ?? 0,
      offsets: new Map(offsets.sort(([a], [b]) => a - b)),
      settings: Object.fromEntries(Object.entries(found.config ?? {}).map(([name, text]) => [name, JSON.parse(text)])),
    };
  }

  async alter(topic: string, settings: Record<string, unknown>, options: CallOptions = {}): Promise<void> {
    const request = { topic, settings: encoded(settings) };
    await this.connection.call(TopicServiceService.alterTopic, request, options);
  }

  async addPartitions(topic: string, count: number, options: CallOptions = {}): Promise<void> {
    await this.connection.call(TopicServiceService.addPartitions, { topic, count }, options);
  }

  /** Delete a topic and its messages. */
  async delete(topic: string, options: CallOptions = {}): Promise<void> {
    await this.connection.call(TopicServiceService.deleteTopic, { topic }, options);
  }
}

function encoded(settings: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, JSON.stringify(value)]));
}
