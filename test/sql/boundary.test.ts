import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

/**
 * What names tables `_sync_*` outside of the ledger's rules, and which: those that a driver keeps for itself.
 */
const besideTheLedger: Readonly<Record<string, { tables: readonly string[]; why: string }>> = {
  'src/sinks/postgres/open-ledger.ts': {
    tables: ['_sync_counters', '_sync_leases', '_sync_meta'],
    why: 'makes what the driver keeps for itself; which server and version it is',
  },
  'src/sinks/postgres/lease/lease-rows.ts': {
    tables: ['_sync_counters', '_sync_leases'],
    why: 'rows of leases and counters',
  },
  'src/sinks/postgres/postgres-sink.ts': { tables: ['_sync_counters', '_sync_meta'], why: 'the fence' },
  'src/sinks/sqlite/open-database.ts': {
    tables: ['_sync_commits', '_sync_meta'],
    why: 'whose file it is; the change counter; the newest commits',
  },
  'src/sinks/jsonl/jsonl-sink.ts': { tables: ['_sync_files'], why: 'which files are closed' },
  'src/sinks/jsonl/manifest.ts': { tables: ['_sync_files'], why: 'the files of lines' },
  'src/publish/postgres/postgres-target.ts': {
    tables: ['_sync_meta'],
    why: 'tells the schema of a sink from one of a target',
  },
  'src/cli/commands/status.ts': {
    tables: ['_sync_quarantine'],
    why: 'tells a person where quarantined records are',
  },
  'src/page/connector-page.ts': {
    tables: ['_sync_quarantine'],
    why: 'tells a person where quarantined records are',
  },
  'src/sign-ins/sign-in-store.ts': { tables: ['_sync_sign_ins'], why: 'no table of the ledger' },
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
    // It tells a person what is to be installed again.
    expect(named.map(({ path }) => path)).toEqual(['src/sinks/sqlite/open-database.ts']);
  });

  it('names tables of the ledger in src/sinks/ledger alone', () => {
    const found = sources
      .filter(({ path }) => !path.startsWith('src/sinks/ledger/'))
      .flatMap(({ path, text }) => {
        const names = new Set([...codeOf(text).matchAll(/(?<![a-z])_sync_\w*/g)].map(([name]) => name));
        return names.size === 0 ? [] : [[path, [...names].sort()] as const];
      });
    const except = Object.entries(besideTheLedger).map(([path, { tables }]) => [path, tables] as const);
    const wrong = found.filter(([path, names]) => {
      const tables = besideTheLedger[path]?.tables ?? [];
      return names.some((name) => !tables.includes(name));
    });
    expect(wrong).toEqual([]);
    const unused = except.filter(
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
