import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import {
  countMissing,
  goesNow,
  isMissing,
  isOrphan,
  isVouchedFor,
  type AlikeRows,
  type NotedMissing,
} from '../../../src/sinks/decisions/missing-rows.ts';
import { prepareMissingRows } from '../../../src/sinks/ledger/deletes/missing-statements.ts';
import { standing } from '../../../src/sinks/ledger/partitions/states.ts';
import { schemaSql } from '../../../src/sinks/ledger/schema.ts';

const news = 'news' as ConnectorName;
const members = 'members' as EntityName;
const run = 'r1' as RunId;
const yesNo = [true, false];

/** Every combination that can be noted, one row each. */
const noted: readonly NotedMissing[] = (['live', 'ended', 'emptied', 'resting'] as const).flatMap((home) =>
  [0, 1, 2, 3].flatMap((missed) =>
    (['nothing', 'get', 'walk'] as const).flatMap((needs) =>
      yesNo.flatMap((isAllowed) =>
        yesNo.flatMap((isVouchedFor) =>
          yesNo.flatMap((wasAsked) =>
            yesNo.map((isGone) => ({ home, missed, needs, isAllowed, isVouchedFor, wasAsked, isGone })),
          ),
        ),
      ),
    ),
  ),
);

/** The row's number is its place in the list. */
function storeAll(db: Database.Database): void {
  db.exec(schemaSql);
  const homes = Object.entries(standing);
  for (const [index, [name, gone]] of homes.entries()) {
    db.prepare(
      `INSERT INTO _sync_partitions (id, connector, entity, params, inject, rank, origin, found_at, ready, listed, gone)
       VALUES (?, 'news', 'members', ?, '{}', 0, 1, '', 0, 0, ?)`,
    ).run(index, `{"at":"${name}"}`, gone);
  }
  const insert = db.prepare(
    `INSERT INTO _sync_missing (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for,
       asked_run, gone_run) VALUES ('news', 'members', ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)`,
  );
  for (const [row, one] of noted.entries()) {
    const home = homes.findIndex(([name]) => name === one.home);
    const flags = [Number(one.isAllowed), Number(one.isVouchedFor)];
    const runs = [one.wasAsked ? 'r0' : null, one.isGone ? run : null];
    insert.run(row, home, one.missed, `since ${1000 + row}`, one.needs, ...flags, ...runs);
  }
}

const rowsThat = (which: (one: NotedMissing) => boolean): readonly number[] =>
  [...noted.entries()].filter(([, one]) => which(one)).map(([row]) => row);

describe('missing rows', () => {
  it('are chosen by SQL as by the functions that explain them, in every combination', () => {
    const db = new Database(':memory:');
    storeAll(db);
    const missing = prepareMissingRows(db);
    const all = noted.length;
    for (const which of ['all', 'allowed', 'missed-twice'] as const) {
      const ready = missing.rowsToDelete
        .all({ connector: news, entity: members, which, run, limit: all })
        .map(({ row }) => row);
      expect(ready, which).toEqual(rowsThat((one) => goesNow(one, which)));
    }
    expect(missing.rowsToJudge.all(news, members, -1, all)).toEqual(
      rowsThat((one) => isMissing(one) && !isVouchedFor(one) && !one.isAllowed),
    );
    expect(noted.map((_one, row) => missing.isCounted.get(news, members, row) !== undefined)).toEqual(
      noted.map((one) => isMissing(one) && !isVouchedFor(one)),
    );
    expect(missing.orphansGone.all(news, run, all).map(({ row }) => row)).toEqual(
      rowsThat((one) => isOrphan(one) && one.isGone),
    );
    const alone = noted.map((one, row): AlikeRows => {
      return { ...one, entity: members, rows: 1, since: `since ${1000 + row}` };
    });
    expect(countMissing(missing.alike(news))).toEqual(countMissing(alone));
    const asked = missing.toConfirm(news, members, { run, now: '' }, all).map(({ row }) => row);
    expect(asked.toSorted((left, right) => left - right)).toEqual(
      rowsThat((row) => (isMissing(row) || isOrphan(row)) && row.needs === 'get'),
    );
    db.close();
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
      { ...alike, rows: 2, missed: 1, needs: 'walk', home: 'live' },
      { ...alike, rows: 3, missed: 2, needs: 'nothing', home: 'live', isAllowed: true, since: '2026-02-01' },
      {
        ...alike,
        rows: 5,
        missed: 1,
        needs: 'get',
        home: 'live',
        isVouchedFor: true,
        wasAsked: true,
        since: '2026-01-01',
      },
      { ...alike, rows: 7, missed: 1, needs: 'get', home: 'emptied', isVouchedFor: true },
      { ...alike, rows: 11, missed: 0, needs: 'get', home: 'live', isVouchedFor: true, wasAsked: true },
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
