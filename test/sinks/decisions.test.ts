import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, describe, onTestFinished } from 'vitest';
import { instant, systemClock } from '../../src/core/clock.ts';
import type { EntityName, RunId, ConnectorName } from '../../src/core/names.ts';
import { noCounts, type JsonType, type Column, type FieldType } from '../../src/core/records.ts';
import {
  accountingError,
  checkCounts,
  countPage,
  weighRows,
  firstHourOfDay,
  hourOf,
} from '../../src/sinks/ledger/counts.ts';
import {
  believedUntil,
  decideMode,
  isUnchanged,
  learnPageLength,
  neverWalked,
  standingOfParent,
  type ChainReading,
  type KnownWalks,
  concludeWalk,
  weakestAbsence,
  type EndedWalk,
  type WalkProof,
  standing,
} from '../../src/sinks/decisions/becoming-due.ts';
import {
  chooseColumns,
  newsOf,
  otherFields,
  rememberDrift,
  type NotedDrift,
} from '../../src/sinks/decisions/drift-columns.ts';
import {
  classifyMet,
  hasHash,
  meetingPlace,
  recordHash,
  staleBefore,
  storedHash,
  takesHash,
  type MeetingPlace,
} from '../../src/sinks/decisions/meet-record.ts';
import {
  isLedTo,
  lookForRow,
  type LookedForRow,
  type Needs,
  type OtherPlace,
} from '../../src/sinks/decisions/missing-rows.ts';
import {
  chainReadings,
  mayResume,
  scopeOf,
  wasKeptWaiting,
  type EarlierRun,
} from '../../src/sinks/ledger/runs/run-chains.ts';
import { declareTable, tableName, withAdded } from '../../src/sinks/decisions/stored-table.ts';
import type { TombstoneChoice } from '../../src/sinks/deletes.ts';
import {
  countNoted,
  askForRows,
  openMissing,
  orphansGone,
  readyRows,
} from '../../src/sinks/ledger/deletes/noted-rows.ts';
import { endProof, sealProof } from '../../src/sinks/ledger/commit.ts';
import { agreesWithStored, readWhole } from '../../src/sinks/ledger/runs/ledger-runs.ts';
import type { Doubt, Seal, StoredProof } from '../../src/sinks/partition.ts';
import type { EntityReport } from '../../src/sinks/run-report.ts';
import type { RunPlan } from '../../src/sinks/sink.ts';
import { tablesSql } from '../../src/sinks/sqlite/sqlite-schema.ts';
import type { Database, Tx } from '../../src/sql/database.ts';
import { openSqliteDatabase } from '../../src/sql/sqlite/open-sqlite-database.ts';
import { openSqlite } from '../../src/sql/sqlite/open-sqlite.ts';

const [members, opens] = ['members' as EntityName, 'opens' as EntityName];
const run = 'r1' as RunId;
const three = { ...noCounts, fetched: 3, inserted: 2, unchanged: 1 };

it('refuses a page with a record that is not accounted for', () => {
  expect(() => checkCounts(members, three)).not.toThrow();
  expect(() => checkCounts(members, { ...three, fetched: 4 })).toThrow(
    'A page of "members" does not add up: fetched/filtered/quarantined/inserted/updated/duplicate/unchanged is 4/0/0/2/0/0/1',
  );
});

it('counts what became of a page, with exploded rows and refused records', () => {
  const refused = { entity: members, reason: 'key-missing', detail: '', record: '' } as const;
  const record = { keyText: '', hash: '', values: [], extra: null, compare: () => 'same' as const };
  const rows = [
    { entity: members, records: [record] },
    { entity: opens, records: [record, record] },
  ];
  const page = { fetched: 4, filtered: 1, foreign: 1, refused: [refused], rows };
  const [one, two] = [
    { ...noCounts, inserted: 1 },
    { ...noCounts, updated: 1, unchanged: 1 },
  ].map(({ quarantined, inserted, updated, duplicate, unchanged }) => ({
    quarantined,
    inserted,
    updated,
    duplicate,
    unchanged,
  }));
  expect(countPage(page, members, [one ?? noCounts, two ?? noCounts])).toEqual([
    {
      entity: members,
      counts: { ...noCounts, fetched: 4, filtered: 1, duplicate: 1, quarantined: 1, inserted: 1 },
    },
    { entity: opens, counts: { ...noCounts, fetched: 2, updated: 1, unchanged: 1 } },
  ]);
});

it('agrees with a report that says of an entity in parts what was stored of it', () => {
  const one = { ...noCounts, fetched: 1, inserted: 1 };
  const two = { ...noCounts, fetched: 2, inserted: 1, unchanged: 1 };
  const parts = [one, two].map((counts) => ({ entity: members, counts }));
  expect(accountingError(run, [{ entity: members, ...three }], parts)).toBe(null);
  expect(accountingError(run, [], [{ entity: opens, counts: noCounts }])).toBe(null);
});

it('names every entity in which the report and the ledger differ', () => {
  const error = accountingError(run, [{ entity: members, ...three }], [{ entity: opens, counts: three }]);
  expect(error).toMatchObject({ code: 'ACCOUNTING', recovery: 'stop' });
  expect(error?.message).toContain('members: the ledger has 3/0/0/2/0/0/1, the report 0/0/0/0/0/0/0');
  expect(error?.message).toContain('opens: the ledger has 0/0/0/0/0/0/0, the report 3/0/0/2/0/0/1');
});

const reading: ChainReading = {
  isIncremental: true,
  fullBefore: '2026-02-01T00:00:00.000Z',
  mayMove: false,
  isFull: false,
  believedUntil: '2026-03-02T00:00:00.000Z',
  scope: 's1',
};
const known: KnownWalks = {
  dueSince: null,
  watermark: '2026-02-20T00:00:00.000Z',
  marker: 'm1',
  fullAt: '2026-02-20T00:00:00.000Z',
  sealedScope: 's1',
};
const marker = { value: 'm1', isSettled: true };

describe('a partition that becomes due', () => {
  it.each<[string, Partial<KnownWalks>, Partial<ChainReading>, 'full' | 'incremental']>([
    ['by its changes', {}, {}, 'incremental'],
    ['in full without a watermark', { watermark: null }, {}, 'full'],
    ['in full where the entity has no changes', {}, { isIncremental: false }, 'full'],
    ['in full where a full run asks for it', {}, { isFull: true }, 'full'],
    ['in full where its newest full walk is too old', { fullAt: '2026-02-01T00:00:00.000Z' }, {}, 'full'],
    ['in full where that walk is dated in the future', { fullAt: '2030-01-01T00:00:00.000Z' }, {}, 'full'],
    ['in full where that walk was withdrawn', { fullAt: null }, {}, 'full'],
    ['in full where it was sealed under another scope', { sealedScope: 's0' }, {}, 'full'],
  ])('is read %s', (_what, walks, change, mode) => {
    expect(decideMode({ ...known, ...walks }, { ...reading, ...change })).toBe(mode);
  });

  it('is read in full where the run does not read the entity', () => {
    expect(decideMode(known, undefined)).toBe('full');
  });
});

describe('a partition that is found again', () => {
  it.each<[string, Partial<KnownWalks>, boolean]>([
    ['with the same marker', {}, true],
    ['with another marker', { marker: 'm0' }, false],
    ['while it is due', { dueSince: '2026-02-25T00:00:00.000Z' }, false],
    ['after too long', { fullAt: null }, false],
  ])('%s need not be read: %s', (_what, walks, expected) => {
    expect(isUnchanged({ ...known, ...walks }, marker, reading)).toBe(expected);
  });

  it('is read where there is no marker, no reading, or no walk', () => {
    expect(isUnchanged(known, null, reading)).toBe(false);
    expect(isUnchanged(known, marker, undefined)).toBe(false);
    expect(isUnchanged(neverWalked, marker, reading)).toBe(false);
  });
});

it('believes times up to a day ahead', () => {
  expect(believedUntil('2026-03-01T10:00:00.000Z')).toBe('2026-03-02T10:00:00.000Z');
});

describe('a walk that ended after a page of its size was followed by more', () => {
  const members = 'members' as EntityName;
  const followed = { size: 1000, records: 256 };
  it.each([
    ['ended too early with a page exactly as long', 256, followed],
    ['ended too early with a longer page', 257, followed],
    ['counts with a shorter page', 255, null],
  ])('%s', (_what, records, expected) => {
    const known = new Map<string, number>();
    expect(learnPageLength(known, members, { followed, seal: null })).toEqual(followed);
    const seal = {
      proof: { kind: 'single', isOrdered: false },
      watermark: null,
      absence: null,
      lastPage: { size: 1000, records },
    } as const;
    expect(learnPageLength(known, members, { seal })).toEqual(expected);
  });
});

describe('the parent of a due partition that the chain has not found', () => {
  it.each([
    ['is there where no full walk of its owner says otherwise', null, false, 'is-there'],
    ['is there where the full walk is older than the finding', 3, false, 'is-there'],
    ['seems gone where this chain has walked its owner and not met it', 7, false, 'seems-gone'],
    ['leads elsewhere where this chain has met it and was not led here', 7, true, 'leads-elsewhere'],
    ['leads elsewhere where a later chain was not led here', 6, false, 'leads-elsewhere'],
  ] as const)('%s', (_what, walkedBy, isSeen, expected) => {
    expect(standingOfParent({ walkedBy, isSeen }, { origin: 7, foundOrigin: 5 })).toBe(expected);
  });
});

describe('conclude walk', () => {
  const [before, start, later] = [
    '2026-03-01T08:00:00.000Z',
    '2026-03-01T10:00:00.000Z',
    '2026-03-01T12:00:00.000Z',
  ];
  const known: EndedWalk = {
    mode: 'full',
    isMidway: false,
    origin: 7,
    watermark: before,
    foundMarker: null,
    fullAt: before,
    fullOrigin: 3,
    isBelowRecord: false,
  };
  const proof: WalkProof = {
    isDoubted: false,
    absence: 'nothing',
    watermark: start,
    chainStartedAt: start,
  };

  describe('what a walk proves', () => {
    it('has a full walk swept that says something of what it did not meet', () => {
      expect(concludeWalk(known, proof)).toEqual({
        watermark: start,
        marker: null,
        fullAt: before,
        fullOrigin: 7,
        sweepOrigin: 7,
      });
    });

    it.each(['full', 'incremental'] as const)('concludes nothing from a %s walk with a doubt', (mode) => {
      const walk = { ...known, mode, foundMarker: later };
      const doubted = { ...proof, isDoubted: true };
      const asBefore = { watermark: before, marker: null, fullAt: before, fullOrigin: 3, sweepOrigin: null };
      expect(concludeWalk(walk, doubted)).toEqual(asBefore);
      const belowRecord = concludeWalk({ ...walk, isBelowRecord: true }, doubted);
      expect(belowRecord, 'read again, whether or not its parent changes').toEqual({
        ...asBefore,
        fullAt: null,
      });
    });

    it('counts a full walk that says nothing of absences without a sweep', () => {
      const concluded = concludeWalk(known, { ...proof, absence: null });
      expect(concluded).toMatchObject({ fullAt: start, fullOrigin: 3, sweepOrigin: null });
    });

    it('leaves the newest full walk as it is after an incremental one', () => {
      const concluded = concludeWalk({ ...known, mode: 'incremental' }, { ...proof, absence: null });
      expect(concluded).toMatchObject({ fullAt: before, fullOrigin: 3, sweepOrigin: null });
    });

    it.each<[string, Partial<EndedWalk>, string | null, string | null]>([
      ['advances', {}, later, later],
      ['goes back to what a full walk says', { watermark: later }, start, start],
      ['never goes back for an incremental walk', { mode: 'incremental', watermark: later }, start, later],
      ['advances for an incremental walk', { mode: 'incremental' }, later, later],
      ['begins with the first walk', { mode: 'incremental', watermark: null }, start, start],
      ['stays where the walk says nothing', {}, null, before],
    ])('has a watermark that %s', (_what, walk, watermark, expected) => {
      expect(concludeWalk({ ...known, ...walk }, { ...proof, watermark }).watermark).toBe(expected);
    });

    it.each<[Partial<EndedWalk>, string | null]>([
      [{ mode: 'full' }, null],
      [{ mode: 'incremental', foundMarker: 'm1' }, null],
      [{ mode: 'incremental' }, before],
    ])('makes the next walk full after one that began midway, but for changes: %o', (walk, fullAt) => {
      const concluded = concludeWalk({ ...known, ...walk, isMidway: true }, proof);
      expect(concluded).toMatchObject({ fullAt, fullOrigin: 3, sweepOrigin: null });
    });

    it('believes of a tree what its least certain listing says', () => {
      expect(weakestAbsence(['nothing', 'get'])).toBe('get');
      expect(weakestAbsence(['get', 'walk', 'nothing'])).toBe('walk');
      expect(weakestAbsence(['nothing', null])).toBe(null);
      expect(weakestAbsence(['nothing'])).toBe('nothing');
    });
  });
});

describe('drift columns', () => {
  const members = 'members' as EntityName;
  const of = (field: string, type: JsonType, more: Partial<NotedDrift> = {}): NotedDrift => ({
    field,
    kind: 'undeclared',
    type,
    isRefused: false,
    ...more,
  });
  const table = { key: ['id'], declared: [{ name: 'id', type: 'string' as const }], stored: [], evolved: [] };

  describe('the columns of undeclared fields', () => {
    it.each<[string, readonly NotedDrift[], string | undefined]>([
      ['one type', [of('nick', 'string'), of('nick', 'null')], 'string'],
      ['integers and other numbers', [of('nick', 'integer'), of('nick', 'number')], 'number'],
      ['two types', [of('nick', 'string'), of('nick', 'integer')], undefined],
      ['null alone', [of('nick', 'null')], undefined],
      ['refused records alone', [of('nick', 'string', { isRefused: true })], undefined],
      ['a name that no definition could declare', [of('nick name', 'string')], undefined],
      ['the name of a system column of PostgreSQL', [of('xmax', 'string')], undefined],
      ['a name that is declared', [of('id', 'string')], undefined],
      [
        'a field that was declared once',
        [of('nick', 'string'), of('nick', 'array', { kind: 'misfit' })],
        undefined,
      ],
    ])('follow from %s', (_what, drift, type) => {
      expect(chooseColumns(drift, table)[0]?.type).toBe(type);
    });

    it('take what an earlier definition has left, where its values fit', () => {
      const left = { ...table, stored: [{ name: 'nick', type: 'any' as const }] };
      expect(chooseColumns([of('nick', 'object')], left)[0]?.type).toBe('any');
      expect(chooseColumns([of('nick', 'string')], left)).toEqual([]);
    });
  });

  it('notes 200 fields of an entity by name, and all others as one', () => {
    const memory = rememberDrift([]);
    const noted = Array.from({ length: 202 }, (_, index) =>
      newsOf(memory, { entity: members, field: `field_${index}`, kind: 'undeclared', type: 'string' }),
    );
    expect(noted.slice(198).map((one) => one?.field)).toEqual([
      'field_198',
      'field_199',
      otherFields,
      undefined,
    ]);
  });
});

describe('end run', () => {
  const [lists, members, tags] = ['lists', 'members', 'members_tags'].map((name) => name as EntityName) as [
    EntityName,
    EntityName,
    EntityName,
  ];
  const report = (entity: EntityName, isWhole: boolean) =>
    ({ entity, isWhole, isProven: true }) as EntityReport;

  it('names the walks of each entity that was read completely', () => {
    const entities = [report(lists, false), report(members, true), report(tags, true)];
    expect(readWhole({ entities }, [lists, members, tags], new Set([lists, members]))).toEqual([
      { entity: members, walked: members },
      { entity: tags, walked: members },
    ]);
  });

  it('takes adopted rows for those of the new address once a full run misses none', () => {
    const whole = { isWhole: true, isProven: true, withheld: 0, pending: 0 };
    expect(agreesWithStored(whole, true)).toBe(true);
    expect(agreesWithStored(whole, false)).toBe(false);
    expect(agreesWithStored({ ...whole, pending: 1 }, true)).toBe(false);
  });
});

it('takes for the last day the hours back to the same hour of yesterday', () => {
  const now = '2026-03-01T10:59:00.000Z';
  expect([firstHourOfDay(now), hourOf(now)]).toEqual(['2026-02-28T10', '2026-03-01T10']);
});

const nowMs = Date.parse('2026-03-02T00:00:00Z');
const stored = { changedAt: instant(nowMs), deletedAt: null };
const showing = {
  difference: 'same',
  isInsertOnly: false,
  wasSeen: false,
  staleBefore: staleBefore(nowMs),
} as const;

it.each<[string, number | null, boolean, number | null, MeetingPlace]>([
  ['outside a walk', 1, false, null, 'owner'],
  ['in its owner', 1, false, 1, 'owner'],
  ['elsewhere', 1, false, 2, 'shared'],
  ['anywhere, without an owner', null, false, 2, 'new-owner'],
  ['elsewhere, tombstoned', 1, true, 2, 'new-owner'],
])('says where a record is met %s', (_where, owner, isDeleted, partition, place) => {
  expect(meetingPlace({ owner, deletedAt: isDeleted ? instant(nowMs) : null }, partition)).toBe(place);
});

it('updates what has another content, and what was deleted, before it is a duplicate', () => {
  const updated = { kind: 'updated', isWritten: true };
  const seen = { ...showing, wasSeen: true };
  expect(classifyMet(stored, {}, { ...seen, difference: 'content' })).toEqual(updated);
  expect(classifyMet({ ...stored, deletedAt: instant(nowMs) }, {}, seen)).toEqual(updated);
  expect(classifyMet(stored, {}, seen)).toEqual({ kind: 'duplicate', isWritten: false });
  expect(classifyMet(stored, {}, showing)).toEqual({ kind: 'unchanged', isWritten: false });
});

it('writes a stale volatile change of a row that was seen as well, and none of an exploded row', () => {
  const old = { ...stored, changedAt: showing.staleBefore };
  const change = { ...showing, difference: 'volatile' } as const;
  const seen = classifyMet(old, {}, { ...change, wasSeen: true });
  expect(seen).toEqual({ kind: 'duplicate', isWritten: true });
  const exploded = classifyMet(old, {}, { ...change, isInsertOnly: true });
  expect(exploded).toEqual({ kind: 'unchanged', isWritten: false });
});

it('knows the hash of a row, and takes over another one on another day', () => {
  const one = { hash: 'a'.repeat(22) };
  const row = { hash: storedHash(one, instant(nowMs)) };
  const others = [
    { hash: 'b'.repeat(22) },
    { hash: `~${one.hash}` },
    { hash: one.hash.slice(1) },
    { hash: '' },
  ];
  expect([recordHash(row.hash), hasHash(row, one)]).toEqual([one.hash, true]);
  expect(others.map((other) => hasHash(row, other))).toEqual(others.map(() => false));
  expect([storedHash({ hash: '' }, instant(nowMs)), recordHash('')]).toEqual(['', '']);
  expect(hasHash({ hash: '' }, { hash: '' })).toBe(false);
  const dayMs = 24 * 60 * 60 * 1_000;
  const takes = (ms: number) => [one, ...others].map((other) => takesHash(row, other, instant(nowMs + ms)));
  expect(takes(dayMs - 1)).toEqual([false, false, false, false, false]);
  expect(takes(dayMs)).toEqual([false, true, true, true, false]);
  expect(takesHash({ hash: '' }, one, instant(nowMs))).toBe(true);
});

describe('missing rows', () => {
  const news = 'news' as ConnectorName;
  const members = 'members' as EntityName;
  const run = 'r1' as RunId;
  const yesNo = [true, false];

  /** Note of a live row that full walks did not meet, or that lies below a deleted record. */
  interface Noted {
    readonly missed: number;
    readonly needs: Needs;
    readonly isAllowed: boolean;
    /** `get` has returned it, or is the first to be asked. */
    readonly isVouchedFor: boolean;
    readonly wasAsked: boolean;
    /** State of the row's owner. */
    readonly owner: keyof typeof standing;
    /** `get` has found nothing in this run. */
    readonly isGone: boolean;
    /** The last read of its partition has met all that the one before met. */
    readonly isAgreed: boolean;
  }

  const isMissing = ({ missed, owner }: Noted): boolean => missed > 0 && owner === 'live';
  const isOrphan = ({ missed, owner }: Noted): boolean => missed > 0 && owner === 'emptied';
  const isVouchedFor = (one: Noted): boolean =>
    one.isVouchedFor && one.wasAsked && one.needs === 'get' && !one.isAllowed;

  /** Every combination that can be noted, one row each. */
  const noted: readonly Noted[] = (['live', 'ended', 'emptied', 'resting'] as const)
    .flatMap((owner) =>
      [0, 1, 2, 4].flatMap((missed) =>
        (['nothing', 'get', 'walk'] as const).flatMap((needs) =>
          yesNo.flatMap((isAllowed) =>
            yesNo.flatMap((isVouchedFor) =>
              yesNo.flatMap((wasAsked) =>
                yesNo.flatMap((isGone) =>
                  yesNo.map((isAgreed) => {
                    return { owner, missed, needs, isAllowed, isVouchedFor, wasAsked, isGone, isAgreed };
                  }),
                ),
              ),
            ),
          ),
        ),
      ),
    )
    .filter(({ isAgreed, needs, missed }) => !(isAgreed && needs === 'walk' && missed === 1));

  function openEmpty(): Database {
    const folder = mkdtempSync(join(tmpdir(), 'missing-rows-'));
    const file = join(folder, 'ledger.db');
    const writer = openSqlite(file);
    writer.exec(tablesSql);
    const db = openSqliteDatabase({
      file,
      writer,
      openReader: () => openSqlite(file, { readonly: true }),
      clock: systemClock,
      lockTimeoutMs: 1_000,
      explain: (error) => error,
    });
    onTestFinished(async () => {
      await db[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    });
    return db;
  }

  /** The row's number is its place in the list. */
  async function storeAll(tx: Tx): Promise<void> {
    const owners = Object.entries(standing).flatMap(([name, gone]) =>
      yesNo.map((isAgreed) => ({ name: `${name} ${isAgreed}`, gone })),
    );
    await tx.run(
      `INSERT INTO _sync_partitions (id, connector, entity, params, params_hash, inject, rank, origin, found_at, ready, listed, gone)
     SELECT p.id, 'news', 'members', p.params, p.params_hash, '{}', 0, 1, '', 0, 0, p.gone
     FROM {p: id bigint, params text, params_hash bytea, gone integer} WHERE true`,
      {
        p: owners.map(({ name, gone }, id) => ({ id, params: name, paramsHash: Buffer.from(name), gone })),
      },
    );
    await tx.run(
      `INSERT INTO _sync_missing (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for,
       asked_run, gone_run)
     SELECT 'news', 'members', m.row, m.owner, 1, m.missed, m.since, m.needs, m.is_allowed, m.is_vouched_for, m.asked_run, m.gone_run
     FROM {m: row bigint, owner bigint, missed integer, since text, needs text, is_allowed integer, is_vouched_for integer, asked_run text, gone_run text}
     WHERE true`,
      {
        m: noted.map((one, row) => ({
          ...one,
          row,
          owner: owners.findIndex(({ name }) => name === `${one.owner} ${one.isAgreed}`),
          since: `since ${1000 + row}`,
          askedRun: one.wasAsked ? 'r0' : null,
          goneRun: one.isGone ? run : null,
        })),
      },
    );
  }

  const rowsThat = (which: (one: Noted) => boolean): readonly number[] =>
    [...noted.entries()].filter(([, one]) => which(one)).map(([row]) => row);

  /** Nothing else must agree before it is deleted, if the guards or a person let it pass. */
  function needsNothingMore({ missed, needs, isGone, isAgreed }: Noted): boolean {
    switch (needs) {
      case 'nothing':
        return true;
      case 'walk':
        return missed >= 4 || (missed >= 2 && isAgreed);
      case 'get':
        return isGone;
    }
  }

  /** Whether it goes now, of the rows that may: what the statement `rowsToDelete` must choose. */
  function goesNow(one: Noted, which: TombstoneChoice): boolean {
    const isChosen = which === 'all' || (which === 'allowed' ? one.isAllowed : one.missed >= 2);
    return isMissing(one) && needsNothingMore(one) && isChosen;
  }

  describe('missing rows', () => {
    it('are chosen and counted by SQL as their words say, in every combination', async () => {
      const limit = noted.length;
      const of = { connector: news, entity: members };
      await openEmpty().transact(async (tx) => {
        await storeAll(tx);
        for (const which of ['all', 'allowed', 'missed-twice'] as const) {
          const ready = await readyRows(tx, { ...of, run, limit }, which);
          expect(
            ready.map(({ row: number }) => number),
            which,
          ).toEqual(rowsThat((one) => goesNow(one, which)));
        }
        expect(await openMissing(tx, { ...of, after: -1, limit })).toEqual(
          rowsThat((one) => isMissing(one) && !isVouchedFor(one) && !one.isAllowed),
        );
        expect(
          (await orphansGone(tx, { connector: news, run, limit })).map(({ row: number }) => number),
        ).toEqual(rowsThat((one) => isOrphan(one) && one.isGone));
        const countOf = (which: (one: Noted) => boolean): number => rowsThat(which).length;
        const [oldest = 0] = rowsThat((one) => isMissing(one) && !isVouchedFor(one));
        expect(await countNoted(tx, { connector: news })).toEqual([
          {
            entity: members,
            missing: countOf(isMissing),
            allowed: countOf((one) => isMissing(one) && one.isAllowed),
            missedTwice: countOf((one) => isMissing(one) && one.missed >= 2),
            vouchedFor: countOf((one) => isMissing(one) && isVouchedFor(one)),
            toConfirm: countOf((one) => (isMissing(one) || isOrphan(one)) && one.needs === 'get'),
            orphans: countOf(isOrphan),
            firstMissed: `since ${1000 + oldest}`,
          },
        ]);
        const asked = await askForRows(tx, { ...of, run, now: '', limit });
        expect(asked.map(({ row: number }) => number).toSorted((left, right) => left - right)).toEqual(
          rowsThat((one) => (isMissing(one) || isOrphan(one)) && one.needs === 'get'),
        );
      });
    });
  });

  it('weighs rows against those of 24 hours ago', () => {
    const account = { stored: 100, judged: 10, addedInDay: 30, deletedInDay: 5 };
    expect(weighRows(account)).toEqual({ live: 90, dayAgo: 65, deletedInDay: 5 });
    expect(weighRows({ ...account, addedInDay: 200 }).dayAgo).toBe(0);
  });

  const chain = {
    origin: 7,
    chainStartedAt: '2026-03-01T10:00:00.000Z',
    keepPartitionsSince: '2026-01-01T00:00:00.000Z',
  };
  const believedUntil = '2026-03-02T10:00:00.000Z';
  const row: LookedForRow = {
    owner: { partition: 1, absence: 'nothing' },
    otherPlaces: [],
    isSeen: false,
    changedAt: '2026-02-01T00:00:00.000Z',
  };
  /** Walked in full by this chain, which has not met the row there. */
  const walked: OtherPlace = {
    partition: 2,
    metBy: 3,
    isLive: true,
    isDue: false,
    origin: 7,
    foundAt: '2026-03-01T10:00:00.000Z',
    isBelowRecord: false,
    fullOrigin: 7,
    absence: 'nothing',
  };
  const look = (change: Partial<LookedForRow>) => lookForRow({ ...row, ...change }, chain, believedUntil);

  describe('a row that its owner no longer shows', () => {
    it('moves where this chain has met it', () => {
      const otherPlaces = [walked, { ...walked, partition: 3, metBy: 7 }];
      expect(look({ otherPlaces, isSeen: true })).toEqual({ kind: 'moves', owner: 3, leaves: [3] });
    });

    it('stays where this chain has met it outside the places that are noted', () => {
      expect(look({ otherPlaces: [walked], isSeen: true })).toEqual({ kind: 'stays', leaves: [] });
    });

    it('moves to the first place that may still show it, and leaves those that cannot', () => {
      const open = { ...walked, fullOrigin: 6 };
      const otherPlaces = [walked, { ...open, partition: 3 }, { ...open, partition: 4 }];
      expect(look({ otherPlaces })).toEqual({ kind: 'moves', owner: 3, leaves: [2, 3] });
    });

    it('needs what the walk asks for that proves least', () => {
      const otherPlaces: readonly OtherPlace[] = [
        { ...walked, absence: 'get' },
        { ...walked, partition: 3, absence: 'walk' },
        { ...walked, partition: 4, absence: 'walk', isLive: false },
      ];
      expect(look({ otherPlaces })).toEqual({ kind: 'missing', owner: 3, needs: 'walk', leaves: [2, 3, 4] });
    });
  });

  describe('a partition', () => {
    it.each<[string, Partial<OtherPlace>, boolean]>([
      ['that this chain has found', {}, true],
      ['that is due', { origin: 3, isDue: true }, true],
      ['that is a root of other settings', { origin: 3 }, false],
      ['below a record, found lately', { origin: 3, isBelowRecord: true }, true],
      [
        'below a record, not found for long',
        { origin: 3, isBelowRecord: true, foundAt: '2025-12-31T00:00:00.000Z' },
        false,
      ],
      ['below a deleted record', { isLive: false, isDue: true }, false],
    ])('%s is led to: %s', (_what, change, expected) => {
      expect(isLedTo({ ...walked, ...change }, chain)).toBe(expected);
    });
  });
});

describe('resume run', () => {
  const [lists, members] = ['lists' as EntityName, 'members' as EntityName];
  const reading = { isIncremental: true, fullBefore: '2026-02-01T00:00:00.000Z', mayMove: false };
  const root = {
    entity: lists,
    params: { all: true },
    inject: {},
    rank: 0,
    tree: null,
    treeDepth: null,
    parent: null,
    marker: null,
    base: null,
  };
  const plan: RunPlan = {
    run: 'r2' as RunId,
    kind: 'sync',
    window: '',
    backfill: '',
    startedAt: '2026-03-02T00:00:00.000Z',
    isFull: false,
    isBudgeted: false,
    reading: new Map([lists, members].map((entity) => [entity, reading])),
    keeps: [],
    keepPartitionsSince: '2026-01-01T00:00:00.000Z',
    tables: [],
    entities: [lists, members],
    roots: [root],
    choices: 'all',
    leaves: [members],
    continueAfter: '2026-03-01T00:00:00.000Z',
  };
  const earlier: EarlierRun = {
    run: 'r1' as RunId,
    origin: 1,
    state: 'interrupted',
    scope: scopeOf(plan, 'd1'),
    canContinue: true,
    isFull: false,
    hasStored: true,
    resumeAt: null,
    progressAt: '2026-03-01T12:00:00.000Z',
  };

  describe('resuming the newest run', () => {
    it.each(['interrupted', 'failed', 'partial'] as const)('resumes one that is %s', (state) => {
      expect(mayResume({ ...earlier, state }, plan, 'd1')).toBe(true);
    });

    it.each<[string, Partial<EarlierRun>]>([
      ['that has ended', { state: 'ok' }],
      ['that has ended degraded', { state: 'degraded' }],
      ['whose rows were lost', { canContinue: false }],
      ['that did not get on lately', { progressAt: plan.continueAfter }],
      ['of another definition', { scope: scopeOf(plan, 'd0') }],
      ['of other choices', { scope: scopeOf({ ...plan, choices: 'some' }, 'd1') }],
      ['of other roots', { scope: scopeOf({ ...plan, roots: [] }, 'd1') }],
    ])('resumes none %s', (_which, change) => {
      expect(mayResume({ ...earlier, ...change }, plan, 'd1')).toBe(false);
    });

    it('knows one that was kept waiting before it gave a page', () => {
      const resumeAt = '2026-03-01T13:00:00.000Z';
      expect(wasKeptWaiting({ ...earlier, resumeAt, hasStored: false })).toBe(true);
      expect(wasKeptWaiting({ ...earlier, resumeAt })).toBe(false);
      expect(wasKeptWaiting({ ...earlier, hasStored: false })).toBe(false);
      expect(wasKeptWaiting(null)).toBe(false);
    });
  });

  it('reads what leads to others under the same choices, and a leaf under any', () => {
    const scopes = (choices: string): readonly unknown[] =>
      [...chainReadings({ ...plan, choices }, 'd1', false).values()].map(({ scope }) => scope);
    const [ofLists, ofMembers] = scopes('all');
    expect(scopes('some')[0]).not.toBe(ofLists);
    expect(scopes('some')[1]).toBe(ofMembers);
  });

  it('says so when the plan lacks how an entity is read', () => {
    expect(() => chainReadings({ ...plan, reading: new Map() }, 'd1', false)).toThrow(
      'does not say how "lists" is read',
    );
  });
});

describe('seal proof', () => {
  const proof = { kind: 'seam', isOrdered: true } as const;
  const seal: Seal = { proof, watermark: null, absence: 'nothing' };
  const doubt: Doubt = { kind: 'total', total: 8, shown: 3 };
  const at = (hour: number): string => instant(Date.UTC(2026, 2, 1, hour));

  function ended(one: Seal, before: StoredProof | null, mode: 'full' | 'incremental' = 'full'): StoredProof {
    return sealProof(endProof(one, before), { mode, now: at(10) });
  }

  it('notes when a listing was read in full without a doubt, and keeps that through other walks', () => {
    const full = ended(seal, null);
    expect(full).toEqual({ ...proof, readAt: at(10) });
    const before = { ...proof, readAt: at(8) };
    expect(ended(seal, before, 'incremental').readAt).toBe(at(8));
    expect(ended({ ...seal, doubt }, before).readAt).toBe(at(8));
    expect(ended({ ...seal, doubt }, null).readAt).toBe(null);
  });

  it.each<[string, Doubt, number]>([
    ['the same numbers', { ...doubt }, 4],
    ['other numbers', { ...doubt, shown: 4 }, 1],
    ['another doubt', { kind: 'repeats' }, 1],
  ])('counts a doubt with %s as that of %i runs in a row', (_what, next, runs) => {
    const before = { ...proof, doubt: { ...doubt, runs: 3 }, readAt: null };
    expect(ended({ ...seal, doubt: next }, before)).toEqual({
      ...proof,
      doubt: { ...next, runs },
      readAt: null,
    });
  });

  it('forgets the doubt where the next walk has none', () => {
    const before = { ...proof, doubt: { ...doubt, runs: 3 }, readAt: null };
    expect(ended(seal, before)).toEqual({ ...proof, readAt: at(10) });
  });

  it('keeps how far an earlier walk has reached where the next one ends with a doubt', () => {
    const before = { ...proof, reach: 40, readAt: null };
    expect(ended({ ...seal, doubt, reach: 3 }, before).reach).toBe(40);
    expect(ended({ ...seal, reach: 3 }, before).reach).toBe(3);
  });
});

describe('stored table', () => {
  const news = 'news-eu' as ConnectorName;
  const members = 'members' as EntityName;
  const column = (name: string, type: FieldType = 'string'): Column => ({ name, type });
  const table = { entity: members, key: ['id'], columns: [column('id'), column('name')] };
  const first = declareTable(news, table, undefined).columns;

  it('names a table after its connector and entity', () => {
    expect(tableName(news, members)).toBe('news_eu__members');
  });

  it('takes an added column for a declared one once the definition declares it', () => {
    const nick: Column = { ...column('nick'), isEvolved: true };
    const added = withAdded(first, [nick]);
    expect(added).toMatchObject({ evolved: [nick], declared: [...table.columns, nick] });
    const kept = declareTable(news, { ...table, columns: [...table.columns, nick] }, added);
    expect(kept).toMatchObject({ columns: { evolved: [nick] }, filled: [] });
    const declared = declareTable(news, { ...table, columns: [...table.columns, column('nick')] }, added);
    expect(declared).toMatchObject({ columns: { evolved: [] }, filled: [] });
  });

  it('refuses another key and a column of another type, save for JSON of another kind', () => {
    expect(() => declareTable(news, { ...table, key: ['name'] }, first)).toThrow('keyed by (id)');
    const other = { ...table, columns: [column('id', 'integer'), column('name')] };
    expect(() => declareTable(news, other, first)).toThrow('column "id" holds string values');
    const json = (type: FieldType) => ({
      ...table,
      columns: [column('id'), column('name'), column('tags', type)],
    });
    const before = declareTable(news, json('array'), first).columns;
    expect(() => declareTable(news, json('object'), before)).not.toThrow();
  });

  it('refuses a key of numbers that is declared as text', () => {
    const numbered = { ...table, columns: [column('id', 'integer'), column('name', 'integer')] };
    const before = declareTable(news, numbered, undefined).columns;
    const named = { ...numbered, columns: [column('id', 'integer'), column('name')] };
    expect(declareTable(news, named, before).retyped).toEqual([column('name', 'integer')]);
    expect(() => declareTable(news, table, before)).toThrow('column "id" holds integer values');
  });
});
