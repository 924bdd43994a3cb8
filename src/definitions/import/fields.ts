import type { JsonObject } from '../../core/json.ts';
import { columnName } from './parts.ts';
import type { FieldType, Schemas } from './schemas.ts';

/** A field of a record, as the service names it and as a column can. */
export interface Field {
  readonly sent: string;
  readonly name: string;
  readonly type: FieldType;
  readonly schema: JsonObject;
  /** The file says that every record has it. */
  readonly isRequired: boolean;
  readonly isNullable: boolean;
}

export interface Fields {
  readonly declared: readonly Field[];
  /** Those that no column can be named after: they are kept in `_extra`. */
  readonly others: readonly string[];
}

/** A file that declares more is a mistake, or hostile. */
const mostFields = 1_000;

/** The fields that the file gives a record. One that would be named as another one stays undeclared. */
export function fieldsOf(record: JsonObject, schemas: Schemas): Fields {
  const required = schemas.required(record);
  const taken = new Map<string, Field>();
  const others: string[] = [];
  const properties = [...schemas.properties(record)].slice(0, mostFields);
  // A field that has its name already keeps it.
  const inOrder = properties.toSorted(
    ([left], [right]) => Number(isChanged(left)) - Number(isChanged(right)),
  );
  for (const [sent, schema] of inOrder) {
    const name = columnName(sent);
    if (name === null || taken.has(name)) others.push(sent);
    else {
      const isNullable = schemas.kinds(schema).has('null');
      taken.set(name, {
        sent,
        name,
        type: schemas.typeOf(schema),
        schema,
        isRequired: required.has(sent),
        isNullable,
      });
    }
  }
  const position = new Map(properties.map(([sent], index) => [sent, index]));
  const declared = [...taken.values()].toSorted(
    (left, right) => (position.get(left.sent) ?? 0) - (position.get(right.sent) ?? 0),
  );
  return { declared, others };
}

function isChanged(sent: string): boolean {
  return columnName(sent) !== sent;
}
