import { describe, expect, it } from 'vitest';
import type { ConnectorName, EntityName, RunId } from '../../../../src/core/names.ts';
import type { FieldDrift } from '../../../../src/core/records.ts';
import type { NotedDrift } from '../../../../src/sinks/decisions/drift-columns.ts';
import { type DriftRows, driftNoting } from '../../../../src/sinks/file-ledger/drift/note-drift.ts';
import type { WriteStamp } from '../../../../src/sinks/file-ledger/record-store.ts';

const news = 'news' as ConnectorName;
const nick: FieldDrift = {
  entity: 'members' as EntityName,
  field: 'nick',
  kind: 'undeclared',
  type: 'string',
};

/** A transaction of a run. */
const stampOf = (run: string): WriteStamp => ({ run: run as RunId, now: '', nextSeq: () => 0 });

function countingRows() {
  const stored: NotedDrift[] = [];
  const statements = { reads: 0, writes: 0 };
  const rows: DriftRows = {
    of: () => {
      statements.reads += 1;
      return [...stored];
    },
    add: (_connector, _entity, drift) => {
      statements.writes += 1;
      stored.push(drift);
    },
  };
  return { rows, stored, statements };
}

describe('noting drift', () => {
  it('costs no statement for a page without any, and none for what is noted already', () => {
    const { rows, statements } = countingRows();
    const note = driftNoting(rows);
    note(news, [], stampOf('r1'));
    expect(statements).toEqual({ reads: 0, writes: 0 });
    for (let page = 0; page < 100; page += 1) note(news, [nick], stampOf('r1'));
    expect(statements).toEqual({ reads: 2, writes: 1 });
  });

  it('costs none for the fields beyond those that are told apart', () => {
    const { rows, statements } = countingRows();
    const note = driftNoting(rows);
    const many = Array.from({ length: 1000 }, (_, index) => ({ ...nick, field: `made up ${index}` }));
    note(news, many, stampOf('r1'));
    expect(statements.writes).toBe(201);
    for (let page = 0; page < 10; page += 1) note(news, many, stampOf('r1'));
    expect(statements).toEqual({ reads: 2, writes: 201 });
  });

  it('looks again in another run: the entity may have been reset meanwhile', () => {
    const { rows, stored, statements } = countingRows();
    const note = driftNoting(rows);
    for (let page = 0; page < 3; page += 1) note(news, [nick], stampOf('r1'));
    stored.splice(0);
    note(news, [nick], stampOf('r2'));
    expect(statements.writes).toBe(2);
  });

  it('notes a second time what a transaction took back', () => {
    const { rows, stored, statements } = countingRows();
    const note = driftNoting(rows);
    note(news, [nick], stampOf('r1'));
    stored.splice(0);
    note(news, [nick], stampOf('r1'));
    expect(statements.writes).toBe(2);
    expect(stored).toHaveLength(1);
  });
});
