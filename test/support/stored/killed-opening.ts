import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { startPostgresProxy } from '../postgres-proxy.ts';
import { atPort } from '../sinks/paged-run.ts';
import type { StoredType } from './stored-kinds.ts';

/**
 * Opens the sink for writing, and looks at what a kill would have left in front of each statement: of a file its copies
 * at that moment, in a server the schema once the connection was cut. `look` gets a bench whose folder or schema is
 * that state.
 */
export async function killedAtEach(
  type: StoredType,
  bench: Bench,
  look: (folder: string, statement: number) => Promise<void>,
): Promise<number> {
  return type === 'postgres' ? await cutAtEach(bench, look) : await copiedAtEach(bench, look);
}

/** So many statements are checked one by one. */
const mostCopied = 150;

async function copiedAtEach(
  bench: Bench,
  look: (folder: string, statement: number) => Promise<void>,
): Promise<number> {
  const copies: string[] = [];
  let statement = 0;
  const copy = (): void => {
    statement += 1;
    // Of what goes row by row through tables, a sample is checked.
    if (statement > mostCopied && statement % 997 !== 0) return;
    const folder = mkdtempSync(join(tmpdir(), 'killed-'));
    copies.push(folder);
    cpSync(bench.folder, folder, { recursive: true, filter: (path) => !path.endsWith('-shm') });
  };
  const restore = beforeEachStatement(copy);
  try {
    await bench.open();
    await bench.closeSinks();
  } finally {
    restore();
  }
  try {
    for (const [at, folder] of copies.entries()) await look(folder, at + 1);
  } finally {
    for (const folder of copies) rmSync(folder, { recursive: true });
  }
  return copies.length;
}

/** Of every connection that is open or will be. Gives what takes it back. */
export function beforeEachStatement(work: () => void): () => void {
  const memory = new Database(':memory:');
  const statement = Object.getPrototypeOf(memory.prepare('SELECT 1')) as object;
  memory.close();
  const watched: readonly (readonly [object, string])[] = [
    [Database.prototype, 'exec'],
    ...['run', 'get', 'all'].map((name) => [statement, name] as const),
  ];
  const restores = watched.map(([owner, name]) => {
    const original = Reflect.get(owner, name) as (...args: unknown[]) => unknown;
    Reflect.set(owner, name, function (this: unknown, ...args: unknown[]): unknown {
      work();
      return original.apply(this, args);
    });
    return () => Reflect.set(owner, name, original);
  });
  return () => {
    for (const restore of restores) restore();
  };
}

/**
 * What the client sends is cut off in front of its packet number 1, 2, 3 ... until an opening sends no more than that.
 */
async function cutAtEach(
  bench: Bench,
  look: (folder: string, statement: number) => Promise<void>,
): Promise<number> {
  const options = bench.kind.options(bench.folder);
  if (options.type !== 'postgres') throw new TypeError('not PostgreSQL');
  const proxy = await startPostgresProxy(options.connection.hosts[0]?.port ?? 0);
  try {
    for (let cutAt = 1; ; cutAt += 1) {
      let packets = 0;
      proxy.rule(() => ({
        fromClient: (bytes) => {
          packets += 1;
          return packets === cutAt ? 0 : bytes.length;
        },
        fromServer: (bytes) => bytes.length,
      }));
      const opening = openSink(atPort(bench, proxy.port), { clock: bench.clock });
      // It fails, or has tried again.
      const sink = await opening.catch(() => null);
      await sink?.[Symbol.asyncDispose]();
      if (packets < cutAt) return cutAt - 1;
      await look(bench.folder, cutAt);
    }
  } finally {
    proxy.close();
  }
}
