import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import type { TombstoneChoice } from '../../../src/sinks/deletes.ts';
import { weighRows } from '../../../src/sinks/decisions/add-up.ts';
import {
  countMissing,
  isLedTo,
  isMissing,
  isOrphan,
  isVouchedFor,
  lookForRow,
  type AlikeRows,
  type LookedForRow,
  type NotedMissing,
  type OtherPlace,
} from '../../../src/sinks/decisions/missing-rows.ts';
import {
  alikeRows,
  askForRows,
  countedRows,
  openMissing,
  orphansGone,
  readyRows,
} from '../../../src/sinks/ledger/deletes/noted-rows.ts';
import { standing } from '../../../src/sinks/decisions/standing.ts';
import { tablesSql } from '../../../src/sinks/sqlite/schema.ts';
import { systemClock } from '../../../src/core/clock.ts';
import type { Database, Tx } from '../../../src/sql/database.ts';
import { openSqliteDatabase } from '../../../src/sql/sqlite/open-sqlite-database.ts';
import { openSqlite } from '../../../src/sql/sqlite/open-sqlite.ts';

const news = 'news' as ConnectorName;
const members = 'members' as EntityName;
const run = 'r1' as RunId;
const yesNo = [true, false];

interface Noted extends NotedMissing {
  /** `get` has found nothing in this run. */
  readonly isGone: boolean;
  /** The last read of its partition has met all that the one before met. */
  readonly isAgreed: boolean;
}

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
  it('are chosen by SQL as by the functions that explain them, in every combination', async () => {
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
      const counted = new Set(await countedRows(tx, { ...of, rows: [...noted.keys()] }));
      expect(noted.map((_one, number) => counted.has(number))).toEqual(
        noted.map((one) => isMissing(one) && !isVouchedFor(one)),
      );
      expect(
        (await orphansGone(tx, { connector: news, run, limit })).map(({ row: number }) => number),
      ).toEqual(rowsThat((one) => isOrphan(one) && one.isGone));
      const alone = noted.map((one, number): AlikeRows => {
        return { ...one, entity: members, rows: 1, since: `since ${1000 + number}` };
      });
      expect(countMissing(await alikeRows(tx, { connector: news }))).toEqual(countMissing(alone));
      const asked = await askForRows(tx, { ...of, run, now: '', limit });
      expect(asked.map(({ row: number }) => number).toSorted((left, right) => left - right)).toEqual(
        rowsThat((one) => (isMissing(one) || isOrphan(one)) && one.needs === 'get'),
      );
    });
  });

  it('count by what they still need', () => {
    const alike = {
      entity: members,
      since: '2026-03-01',
      isAllowed: false,
      isVouchedFor: false,
      wasAsked: false,
    };
    const counts = countMissing([
      { ...alike, rows: 2, missed: 1, needs: 'walk', owner: 'live' },
      { ...alike, rows: 3, missed: 2, needs: 'nothing', owner: 'live', isAllowed: true, since: '2026-02-01' },
      {
        ...alike,
        rows: 5,
        missed: 1,
        needs: 'get',
        owner: 'live',
        isVouchedFor: true,
        wasAsked: true,
        since: '2026-01-01',
      },
      { ...alike, rows: 7, missed: 1, needs: 'get', owner: 'emptied', isVouchedFor: true },
      { ...alike, rows: 11, missed: 0, needs: 'get', owner: 'live', isVouchedFor: true, wasAsked: true },
    ]);
    expect(counts).toEqual({
      missing: 10,
      allowed: 3,
      missedTwice: 3,
      vouchedFor: 5,
      toConfirm: 12,

      orphans: 7,
      firstMissed: '2026-02-01',
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
  it('is missing where no place is left', () => {
    expect(look({})).toEqual({ kind: 'missing', owner: 1, needs: 'nothing', leaves: [] });
  });

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

  it('stays where something else than this chain has written it meanwhile, unless a clock was wrong', () => {
    expect(look({ changedAt: '2026-03-01T11:00:00.000Z' }).kind).toBe('stays');
    expect(look({ changedAt: '2030-01-01T00:00:00.000Z' }).kind).toBe('missing');
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
