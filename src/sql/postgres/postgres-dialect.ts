import type { Dialect } from '../statement.ts';

/** Lists and the columns of sets are arrays. */
export const postgresDialect: Dialect = {
  name: 'postgres',
  parameter: (position) => `$${position}`,
  inList: (position, type, isNot) => `${isNot ? '<> ALL' : '= ANY'}($${position}::${type}[])`,
  set: (alias, columns, first, isCounted) => {
    const arrays = columns.map(({ type }, index) => `$${first + index}::${type}[]`);
    const names = [...columns.map(({ name }) => name), ...(isCounted ? ['n'] : [])];
    return `unnest(${arrays.join(', ')})${isCounted ? ' WITH ORDINALITY' : ''} AS ${alias}(${names.join(', ')})`;
  },
  isSetOneParameter: false,
  index: () => '',
  json: (column, key) => `(${column}::json ->> '${key}')`,
  ownIds: 'OVERRIDING SYSTEM VALUE',
};
