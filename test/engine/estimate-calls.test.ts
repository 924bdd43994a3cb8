import { nothingDone } from '../../src/engine/run-tally.ts';
import { describe, expect, it } from 'vitest';
import type { ConnectorName, EntityName, RunId } from '../../src/core/names.ts';
import { estimateCalls } from '../../src/engine/estimate-calls.ts';
import type { ConnectorStatus, EntityStatus, RunSummary } from '../../src/sinks/ledger-reader.ts';
import type { EntityReport } from '../../src/sinks/run-report.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { allEntities } from '../support/sync-once.ts';

const at = '2026-05-01T00:00:00.000Z';
const known = (entity: string, rows: number, partitions: number): EntityStatus => ({
  entity: entity as EntityName,
  rows,
  deleted: 0,
  missing: 0,
  partitions,
  due: 0,
  quarantined: 0,
  partMissing: null,
  completeness: 'complete',
  lastSealedAt: at,
  lastCompleteReadAt: at,
  files: null,
});

function estimate(
  name: string,
  entity: EntityStatus,
  isFull: boolean,
  last: Partial<EntityReport> | null = null,
) {
  const definition = builtInDefinition(name);
  const status: ConnectorStatus = {
    connector: name as ConnectorName,
    definition: name,
    connectorId: 'c',
    baseUrl: 'http://test',
    lastHolder: { pid: 1, host: 'h', command: 'c', since: at },
    lastRun: last === null ? null : runWith(entity.entity, last),
    entities: [entity],
  };
  const found = estimateCalls({ definition, entities: allEntities(definition), status, isFull }).find(
    (one) => one.entity === entity.entity,
  );
  return { calls: found?.calls, basis: found?.basis };
}

function runWith(entity: EntityName, more: Partial<EntityReport>): RunSummary {
  const run = 'r1' as RunId;
  const report: EntityReport = {
    ...nothingDone,
    entity,
    isWhole: true,
    ...more,
  };
  const times = { startedAt: at, finishedAt: at };
  const counters = { calls: 0, retries: 0, waitedMs: 0, bytes: 0 };
  const rest = {
    failures: [],
    failuresOmitted: 0,
    error: null,
    resumeAt: null,
    left: [],
    partMissing: [],
    unconfirmed: [],
    files: [],
  };
  const base = { run, kind: 'sync' as const, connector: 'c' as ConnectorName, continues: null, ...times };
  return {
    ...base,
    state: 'ok',
    report: { ...base, outcome: 'ok', entities: [report], ...counters, ...rest },
  };
}

describe('the calls that a run will need', () => {
  it('are one for each partition where only what changed is asked for', () => {
    const members = known('list_members', 50_000, 7);
    expect(estimate('email-marketing', members, false)).toEqual({
      calls: 7,
      basis: 'only what changed since the last read',
    });
    expect(estimate('email-marketing', members, true)).toEqual({
      calls: 58,
      basis: '50,000 rows in 7 partitions at the last read',
    });
  });

  it('are unknown where only what lies below changed records is read', () => {
    const blocks = known('blocks', 900, 40);
    expect(estimate('workspace-notes', blocks, false)).toEqual({
      calls: null,
      basis: 'only what changed: below pages with changes',
    });
    expect(estimate('workspace-notes', blocks, true).calls).toBe(49);
  });

  it('are those of the last run where it read the same, not where it read a part of it', () => {
    const blocks = known('blocks', 900, 40);
    const proofs = { single: 0, seam: 0, token: 60, keyset: 0 };
    const asLast = { calls: 77, basis: 'as in the last run' };
    expect(estimate('workspace-notes', blocks, true, { pages: 77, proofs })).toEqual(asLast);
    const few = { pages: 4, proofs: { ...proofs, token: 4 } };
    expect(estimate('workspace-notes', blocks, true, few).calls).toBe(49);
    const members = known('list_members', 50_000, 7);
    const changes = { pages: 9, proofs: { ...proofs, token: 0, keyset: 7 }, incremental: 7 };
    expect(estimate('email-marketing', members, true, changes).calls).toBe(58);
  });
});
