import type { FoundConnector } from '../find-in-workspaces.ts';
import { fittingTable } from './fitting-table.ts';

/** Connectors behind the API; `config` names the entries that read them. */
export function connectorTable(found: readonly FoundConnector[], width: number | null): readonly string[] {
  const rows = found.map(({ workspace, id, name, definition, configured }) => [
    workspace,
    id,
    definition ?? '?',
    configured.join(', '),
    name ?? '',
  ]);
  return fittingTable(columns, rows, width);
}

const columns = [
  { title: 'workspace', align: 'left' },
  { title: 'id', align: 'left' },
  { title: 'definition', align: 'left' },
  { title: 'config', align: 'left' },
  { title: 'name', align: 'left' },
] as const;
