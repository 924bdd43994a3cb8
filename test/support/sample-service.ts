import type { EntityTable } from '../../src/core/records.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { sampleTruth } from './sample-truth.ts';
import { serveSamples, type SampleServer } from './serve-samples.ts';
import { expectedRows, type Row } from './expected-rows.ts';
import { testCredentials } from './sync-once.ts';

const definitions = loadDefinitions([builtInDefinitionsFolder]);
/** Of every sample account in the tests, so that they all hold the same. */
export const sampleSeed = 11;

/** Connector id and definition name, as the sample service of the tests has them. */
export const sampleConnectors = [
  ['mailing', 'email-marketing'],
  ['notes', 'workspace-notes'],
  ['library', 'document-library'],
] as const;

export function builtInDefinition(name: string): Definition {
  const definition = definitions.get(name);
  if (definition === undefined) throw new Error(`no definition ${name}`);
  return definition;
}

/** The sample accounts over HTTP, one of each definition. */
export async function startSampleService(
  size: SampleSize,
  options: { readonly latencyMs?: number; readonly wrap?: (account: SampleAccount) => SampleAccount } = {},
): Promise<SampleServer> {
  const { latencyMs = 0, wrap } = options;
  return await serveSamples({
    port: 0,
    ...testCredentials,
    definitions,
    latencyMs,
    accounts: sampleConnectors.map(([connectorId, definitionName]) => ({
      connectorId,
      definitionName,
      workspace: 'default',
      seed: sampleSeed,
      size,
      ...(wrap === undefined ? {} : { wrap }),
    })),
  });
}

/** Table name -> key -> row: all that a complete sync of a sample account has stored. */
export function sampleRows(
  definitionName: string,
  size: SampleSize,
): ReadonlyMap<string, ReadonlyMap<string, Row>> {
  const account = createSampleAccount({ definitionName, seed: sampleSeed, size });
  const tables = new Map<string, ReadonlyMap<string, Row>>();
  for (const entity of builtInDefinition(definitionName).entities.values()) {
    const { rows, exploded } = expectedRows(entity, sampleTruth(account, entity.name));
    tables.set(entity.name, rows);
    if (entity.explodedTable !== null) tables.set(entity.explodedTable.entity, exploded);
  }
  return tables;
}

/** The same without what is not asked for by default: comments below single blocks. */
export function storedByDefault(
  definitionName: string,
  size: SampleSize,
): ReadonlyMap<string, ReadonlyMap<string, Row>> {
  const tables = new Map(sampleRows(definitionName, size));
  const comments = [...(tables.get('comments') ?? [])].filter(([, { columns }]) => {
    const { parent } = columns;
    return typeof parent === 'object' && parent !== null && 'page_id' in parent;
  });
  if (tables.has('comments')) tables.set('comments', new Map(comments));
  return tables;
}

/** The tables of a definition's entities, with those of rows that are made of their elements. */
export function tablesOf(definitionName: string): readonly EntityTable[] {
  return [...builtInDefinition(definitionName).entities.values()].flatMap(({ table, explodedTable }) =>
    explodedTable === null ? [table] : [table, explodedTable],
  );
}
