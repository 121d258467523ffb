import type { Event } from "./events";
import EventEmitter from "node:events";
import legacy = require("legacy");

/** What can be kept. */
export interface Entry<K extends string = string> extends Readonly<Base>, Keyed {
  readonly key: K;
  value?: unknown;
  touch(at: Date): void;
}

export type Listener<E> = (event: E) => void | Promise<void>;
type Options = { size: number; onFull?(): void } & Partial<Entry>;

export const enum Mode {
  Read = 1,
  Write,
}

/** Overloads are all kept. */
export function open(path: string): Store;
export function open(path: string, mode: Mode): Store;
export function open(path: string, mode: Mode = Mode.Read): Store {
  return new Store(path, mode);
}

@sealed
export abstract class Store<T = any> extends EventEmitter implements Iterable<T>, legacy.Closable {
  private readonly entries: Map<string, Entry> = new Map();
  static count = 0;
  declare label: string;

  constructor(
    protected path: string,
    public readonly mode?: Mode,
  ) {
    super();
    this.label = path;
    Store.count++;
  }

  protected abstract load(): Promise<T[]>;

  @logged("get")
  async get<U extends T>(key: string, parse: Listener<U>): Promise<U | undefined> {
    const found = this.entries.get(key) as Entry | undefined;
    const { value } = found!;
    return value satisfies unknown as U;
  }

  get [Symbol.toStringTag]() {
    return "Store";
  }
}

export namespace Paths {
  export const root: string = "/";
  export function join(...parts: string[]): string {
    return parts.join(root);
  }
}

declare global {
  interface Window {
    store: Store;
  }
}

declare const VERSION: string;
export default Store;
