/** A real broker in a process of its own, which can be killed and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const PROGRAM = resolve(process.env.GOQUEUE ?? "../../.venv/bin/goqueue");

export class Broker {
  /** HOST:PORT of gRPC. */
  address = "";
  private process: ChildProcess | undefined;
  private ports = ["0", "0"];

  private constructor(
    readonly directory: string,
    private readonly options: readonly string[],
  ) {}

  static async start(...options: string[]): Promise<Broker> {
    const broker = new Broker(await mkdtemp(join(tmpdir(), "goqueue-")), options);
    await broker.start();
    return broker;
  }

  async start(): Promise<void> {
    const [port, rpc] = this.ports as [string, string];
    const places = ["--data-dir", join(this.directory, "data"), "--port", port, "--grpc-port", rpc];
    const stdio = ["ignore", "ignore", "pipe"] as ["ignore", "ignore", "pipe"];
    const child = spawn(PROGRAM, ["serve", ...places, ...this.options], { stdio });
    this.process = child;
    let http = "";
    const said: string[] = [];
    for await (const line of createInterface(child.stderr)) {
      said.push(line);
      http ||= /https?:\/\/[^:]+:(\d+)/.exec(line)?.[1] ?? "";
      this.address = /^gRPC\s+(\S+)/.exec(line)?.[1] ?? this.address;
      if (line.startsWith("^C")) {
        this.ports = [http, this.address.split(":")[1] as string];
        child.stderr.resume();
        return;
      }
    }
    throw new Error(`the broker did not start:\n${said.join("\n")}`);
  }

  /** End it without a chance to say goodbye. */
  async kill(): Promise<void> {
    const ended = once(this.process as ChildProcess, "exit");
    this.process?.kill("SIGKILL");
    await ended;
  }

  async stop(): Promise<void> {
    const ended = once(this.process as ChildProcess, "exit");
    this.process?.kill("SIGTERM");
    await ended;
    await rm(this.directory, { recursive: true });
  }
}

export async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of source) found.push(one);
  return found;
}
