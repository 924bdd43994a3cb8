import type { ServedAccount } from './serve-samples.ts';

export const servedWorkspace = 'default';
export const servedOrganization = 'default';
export const defaultDataFolder = './data/service';

const samples = [
  { connectorId: 'sample-newsletter', definitionName: 'email-marketing', name: 'newsletter' },
  { connectorId: 'sample-wiki', definitionName: 'workspace-notes', name: 'wiki' },
  { connectorId: 'sample-library', definitionName: 'document-library', name: 'library' },
] as const;

/** The connectors that every `serve` has: one of each built-in definition. */
export function servedAccounts(
  account: Pick<ServedAccount, 'size' | 'seed' | 'revision'>,
): readonly ServedAccount[] {
  return samples.map(({ connectorId, definitionName }) => ({
    connectorId,
    definitionName,
    workspace: servedWorkspace,
    ...account,
  }));
}

/** Lines of a config that reads them. */
export function configLines(): readonly string[] {
  return samples.map(
    ({ connectorId, definitionName, name }) =>
      `    ${name}: { definition: ${definitionName}, id: ${connectorId}, sink: main }`,
  );
}
