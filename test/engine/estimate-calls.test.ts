import { describe, expect, it } from 'vitest';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { estimateCalls } from '../../src/engine/estimate-calls.ts';
import type { ConnectorStatus, EntityStatus } from '../../src/sinks/ledger-reader.ts';
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
  lastSealedAt: at,
});

function estimate(name: string, entity: EntityStatus, isFull: boolean) {
  const definition = builtInDefinition(name);
  const status: ConnectorStatus = {
    connector: name as ConnectorName,
    definition: name,
    connectorId: 'c',
    baseUrl: 'http://test',
    lastHolder: { pid: 1, host: 'h', command: 'c', since: at },
    lastRun: null,
    entities: [entity],
  };
  const found = estimateCalls({ definition, entities: allEntities(definition), status, isFull }).find(
    (one) => one.entity === entity.entity,
  );
  return { calls: found?.calls, basis: found?.basis };
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
      basis: '50000 rows in 7 partitions at the last read',
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
});
