import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

/**
 * Files outside of the ledger's rules that name tables `_sync_*`, and which: those that a driver keeps for itself.
 */
const besideTheLedger: Readonly<Record<string, readonly string[]>> = {
  // Makes what the driver keeps for itself; which server and version it is.
  'src/sinks/postgres/postgres-schema.ts': ['_sync_counters', '_sync_leases', '_sync_meta'],
  // Rows of leases and counters.
  'src/sinks/postgres/lease-rows.ts': ['_sync_counters', '_sync_leases'],
  // The fence.
  'src/sinks/postgres/postgres-sink.ts': ['_sync_counters', '_sync_meta'],
  // Whose file it is; the change counter; the newest commits.
  'src/sinks/sqlite/open-database.ts': ['_sync_commits', '_sync_meta'],
  // The files of lines, and which are closed.
  'src/sinks/jsonl/jsonl-sink.ts': ['_sync_files'],
  // Tells the schema of a sink from one of a target.
  'src/publish/postgres-target.ts': ['_sync_meta'],
  // Tells a person where quarantined records are.
  'src/cli/commands/status.ts': ['_sync_quarantine'],
  // Tells a person where quarantined records are.
  'src/page/connector-page.ts': ['_sync_quarantine'],
  // No table of the ledger.
  'src/sign-ins/sign-in-store.ts': ['_sync_sign_ins'],
};

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => `src/${name}`)
  .map((path) => ({ path, text: readFileSync(path, 'utf8') }));

describe('the boundary between databases and the ledger', () => {
  it('keeps databases below every rule: src/sql has no word of the glossary', () => {
    // But for those that SQL or its servers have themselves: row, key, page, window, identity, place, target, retry.
    const words = new RegExp(
      'connector|entit(?:y|ies)|record|sink|ledger|partition|lease|\\b(?:backfill|chain|checkpoint|drift|epoch|' +
        'listing|marker|orphan|origin|proof|publication|quarantine|run ?id|seal|sealed|sweep|swept|sync|tombstone|' +
        'tombstoned|undo|walk|watermark|withheld)s?\\b|_sync_',
      'gi',
    );
    // The program's name, and what other things are called: types, the release of locks and clients, clauses, a message
    // of the wire.
    const others =
      /connector-sync|\bRecord<|\brelease|identity|wire\.sync\(\)|sync\(\): void|autocheckpoint|passwords and records/gi;
    const found = sources
      .filter(({ path }) => isSql(path))
      .flatMap(({ path, text }) =>
        [...text.replaceAll(others, '').matchAll(words)].map(([word]) => `${path}: ${word}`),
      );
    expect(found).toEqual([]);
  });

  it('names the libraries of databases in src/sql alone', () => {
    const named = sources.filter(
      ({ path, text }) => !isSql(path) && /better-sqlite3|'pg'/.test(codeOf(text)),
    );
    expect(named.map(({ path }) => path)).toEqual([]);
  });

  it('names tables of the ledger in src/sinks/ledger alone', () => {
    const found = sources
      .filter(({ path }) => !path.startsWith('src/sinks/ledger/'))
      .flatMap(({ path, text }) => {
        const names = new Set([...codeOf(text).matchAll(/(?<![a-z])_sync_\w*/g)].map(([name]) => name));
        return names.size === 0 ? [] : [[path, [...names].sort()] as const];
      });
    const wrong = found.filter(([path, names]) => {
      return names.some((name) => besideTheLedger[path]?.includes(name) !== true);
    });
    expect(wrong).toEqual([]);
    const unused = Object.entries(besideTheLedger).filter(
      ([path, tables]) =>
        !found.some(([of, names]) => of === path && tables.every((one) => names.includes(one))),
    );
    expect(unused).toEqual([]);
  });
});

function isSql(path: string): boolean {
  return path.startsWith('src/sql/');
}

/** Without lines of comments. */
function codeOf(text: string): string {
  return text.replaceAll(/^\s*(?:\/\*|\*|\/\/).*$/gm, '');
}
