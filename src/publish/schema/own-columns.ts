import type { CatalogueTable } from './catalogue.ts';

export type OwnType = 'json' | 'integer' | 'time' | 'string' | 'boolean';

/** What the program adds to each row, behind the record's columns. */
export const ownColumns: readonly {
  readonly name: string;
  readonly type: OwnType;
  readonly description: string;
}[] = [
  {
    name: '_extra',
    type: 'json',
    description: 'What the record has and no column takes: a JSON object, as text',
  },
  {
    name: '_seq',
    type: 'integer',
    description: 'Number of the newest change of the row: later changes have higher ones',
  },
  { name: '_changed_at', type: 'time', description: 'When that change was stored' },
  { name: '_run_id', type: 'string', description: 'The sync that stored it' },
  { name: '_deleted', type: 'boolean', description: 'The record is gone at the source' },
  { name: '_deleted_at', type: 'time', description: 'When that was found' },
];

/** All columns of a table as a warehouse has them, keys as NOT NULL. */
export function columnsOf({ columns, key }: CatalogueTable) {
  return [
    ...columns.map(({ name, type }) => ({
      name,
      type: type === 'object' || type === 'array' || type === 'any' ? ('json' as const) : type,
      isRequired: key.includes(name),
    })),
    ...ownColumns.map(({ name, type }) => ({
      name,
      type,
      isRequired: ['_seq', '_changed_at', '_deleted'].includes(name),
    })),
  ];
}
