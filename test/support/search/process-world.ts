import { resolve } from 'node:path';
import { type Bench, news, onlyPartition, page, record, rootOf } from '../../contracts/sink/fixture.ts';
import { sqlite } from './index-world.ts';
import { systemClock } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { indexEntity } from '../../../src/search/sqlite-index.ts';
import {
  openSearchProcesses,
  type SearchCall,
  type SearchProcesses,
  type SearchProcessesOptions,
} from '../../../src/search/process/open-search-processes.ts';

export const listMembers = entityOf('list_members');

/** Of a run that reads list members alone. */
const membersPlan = {
  tables: [listMembers.table],
  entities: [listMembers.name],
  roots: [rootOf(listMembers.name)],
};

/** A closed sink with members, indexed where `isIndexed`. */
export async function sinkOfMembers(
  bench: Bench,
  members: readonly PreparedRecord[],
  { isIndexed }: { readonly isIndexed: boolean },
): Promise<string> {
  const sink = await bench.open();
  const started = await bench.begin(sink, 'run-1', membersPlan);
  const { id } = await onlyPartition(sink, started.lease);
  await sink.commit(started.lease, [page(started, id, members, { entity: listMembers.name })]);
  await bench.closeSinks();
  const file = sqlite.ledgerFile(bench.folder);
  if (isIndexed) await indexEntity(file, news, listMembers);
  return file;
}

export function listMember(
  id: string,
  values: Readonly<Record<string, string | number | null>> = {},
): PreparedRecord {
  return record(listMembers.table, { list_id: 'a', id, ...values });
}

export function callFor(file: string, params: JsonObject): SearchCall {
  return { file, connector: news, entity: listMembers, params, scope: 'c-1/list_members' };
}

export function openProcesses(change: Partial<SearchProcessesOptions> = {}): SearchProcesses {
  return openSearchProcesses({
    processes: 1,
    deadlineMs: 5_000,
    maxWaiting: 8,
    cursorKey: Buffer.alloc(32, 7),
    clock: systemClock,
    ...change,
  });
}

function entityOf(name: string): Entity {
  const definitions = loadDefinitions([resolve(import.meta.dirname, '../../../config/definitions')]);
  const entity = definitions.get('email-marketing')?.entities.get(name as EntityName);
  if (entity === undefined) throw new Error(`no entity ${name}`);
  return entity;
}
