import { expectedRows, type Row } from '../support/expected-rows.ts';
import { revisingAccount, type RevisingAccount } from '../support/revising-account.ts';
import { trueRows } from '../support/revision-world.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import { sampleDefinitions } from '../../src/sample/sample-service.ts';
import type { SampleSize } from '../../src/sample/sample-account.ts';
import { maxSampleRevision, revisionTime } from '../../src/sample/sample-values.ts';

export type Tables = ReadonlyMap<string, ReadonlyMap<string, Row>>;

/** The sample account behind one connector. */
export interface SoakAccount {
  readonly connector: string;
  readonly connectorId: string;
  readonly definition: Definition;
  readonly size: SampleSize;
  readonly seed: number;
  readonly account: RevisingAccount;
  /** Applies one round of changes: records are added, changed and deleted. False if there are no more rounds. */
  revise(): boolean;
  /** Its current rows. */
  truth(): Tables;
  /**
   * True for a row that may stay stored though the account no longer has it: its entity has `deletes: never`, or it or
   * its page is in the trash.
   */
  mayStay(table: string, key: string, row: Row): boolean;
}

/**
 * The time of the service's clock while its accounts are at this revision, in milliseconds since the epoch: after all
 * changes of that revision and before those of the next. A record that changes while a run reads must be dated after
 * the run's start.
 */
export function timeAt(revision: number): number {
  return revisionTime(revision) + 20 * 60 * 60 * 1000;
}

/** Accounts of each sample definition in turn; every eleventh is larger, so that each sink gets some. */
export function makeAccounts(count: number, seed: number): readonly SoakAccount[] {
  return Array.from({ length: count }, (_, index) => {
    const name = sampleDefinitions[index % sampleDefinitions.length] ?? '';
    return makeAccount(`soak-${index}`, name, index % 11 === 9 ? 'small' : 'tiny', seed + index);
  });
}

function makeAccount(connector: string, name: string, size: SampleSize, seed: number): SoakAccount {
  const definition = builtInDefinition(name);
  const account = revisingAccount({ definitionName: name, seed, size });
  const lasting = [...definition.entities.values()].filter(({ deletes }) => deletes === 'never');
  /** All keys so far of tables without deletes. */
  const happened = new Set<string>();
  const remember = (): void => {
    for (const entity of lasting) {
      const { rows, exploded } = expectedRows(entity, sampleTruth(account, entity.name));
      for (const key of rows.keys()) happened.add(`${entity.table.entity} ${key}`);
      for (const key of exploded.keys()) happened.add(`${entity.explodedTable?.entity} ${key}`);
    }
  };
  return {
    connector,
    connectorId: `id-${connector}`,
    definition,
    size,
    seed,
    account,
    revise: () => {
      if (account.revision >= maxSampleRevision) return false;
      remember();
      account.moveTo(account.revision + 1);
      return true;
    },
    truth: () => trueRows(name, account),
    mayStay: (table, key, row) => happened.has(`${table} ${key}`) || isTrashed(account, table, row),
  };
}

const idParams: Readonly<Record<string, string>> = {
  pages: 'page_id',
  data_sources: 'data_source_id',
  blocks: 'block_id',
};

function isTrashed(account: RevisingAccount, table: string, { columns }: Row): boolean {
  const parent = columns['parent'];
  const pageOfComment =
    typeof parent === 'object' && parent !== null && 'page_id' in parent ? parent['page_id'] : null;
  const page = table === 'blocks' ? columns['page_id'] : table === 'comments' ? pageOfComment : null;
  return [
    [table, columns['id']] as const,
    ...(typeof page === 'string' ? [['pages', page] as const] : []),
  ].some(([entity, id]) => {
    const param = idParams[entity];
    return param !== undefined && account.get(entity, { [param]: id ?? null })?.['in_trash'] === true;
  });
}
