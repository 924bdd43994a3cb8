import type { Checker, Symbol as TypeSymbol, Type } from 'typescript/unstable/sync';
import { TypeFlags, SymbolFlags } from 'typescript/unstable/sync';

export type JsonSchema = { readonly [keyword: string]: unknown };

/** Types whose values are written as they are: what they hold is the services' affair. */
const anyJson = new Set(['JsonValue', 'unknown']);

/** JSON Schemas of types, as `jsonText` writes their values. Throws for a type that says too little to be of use. */
export function openTypeSchemas(checker: Checker) {
  const names = new Map<number, string>();
  const definitions = new Map<string, JsonSchema>();
  const vague = new Set<string>();
  const within: string[] = [];
  let place = '';

  const of = (type: Type, depth = 0): JsonSchema => {
    if (depth > 40) throw new Error(`${place}: a type without end`);
    const alias = type.getAliasSymbol()?.name ?? '';
    if (anyJson.has(alias)) return {};
    if (alias === 'JsonObject') return { type: 'object' };
    if (type.isLiteralType()) return { const: literal(type.value) };
    if (type.flags & TypeFlags.BooleanLike && !type.isUnionType()) return { type: 'boolean' };
    if (type.flags & TypeFlags.StringLike || type.isTemplateLiteralType()) return { type: 'string' };
    if (type.flags & TypeFlags.BigIntLike) return { type: 'integer' };
    if (type.flags & TypeFlags.NumberLike) return { type: 'number' };
    if (type.flags & TypeFlags.Null) return { type: 'null' };
    if (type.flags & TypeFlags.Unknown) return {};
    if (type.flags & (TypeFlags.Any | TypeFlags.NonPrimitive)) {
      vague.add(`${place}: ${checker.typeToString(type)} at ${within.join('.') || 'the top'}`);
      return {};
    }
    if (type.isTypeParameter()) {
      const bound = checker.getBaseConstraintOfType(type);
      if (bound === undefined) throw new Error(`${place}: ${checker.typeToString(type)} is open`);
      return of(bound, depth + 1);
    }
    if (type.isUnionType()) {
      const schema = union(type.getTypes(), depth);
      return 'enum' in schema ? named(type, () => schema) : schema;
    }
    if (type.isIntersectionType()) {
      // A text or number with a name of its own.
      const plain = type
        .getTypes()
        .find((part) => part.flags & (TypeFlags.StringLike | TypeFlags.NumberLike));
      if (plain !== undefined) return of(plain, depth + 1);
    }
    return object(type, depth);
  };

  const union = (types: readonly Type[], depth: number): JsonSchema => {
    const present = types.filter(({ flags }) => !(flags & (TypeFlags.Undefined | TypeFlags.Void)));
    const booleans = present.filter((one) => one.isBooleanLiteralType());
    const others = booleans.length === 2 ? present.filter((one) => !one.isBooleanLiteralType()) : present;
    const literals = others.flatMap((one) => (one.isLiteralType() ? [literal(one.value)] : []));
    const rest = others.filter((one) => !one.isLiteralType()).map((one) => of(one, depth + 1));
    const schemas: JsonSchema[] = [
      ...(literals.length === 0
        ? []
        : [
            literals.length === 1
              ? { const: literals[0] }
              : { enum: literals.toSorted((one, other) => (String(one) < String(other) ? -1 : 1)) },
          ]),
      ...(booleans.length === 2 ? [{ type: 'boolean' }] : []),
      // The compiler's order is that in which it met them.
      ...[...new Map(rest.map((one) => [JSON.stringify(one), one]))]
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([, one]) => one),
    ];
    if (schemas.some((one) => Object.keys(one).length === 0)) return {};
    const [only] = schemas;
    return schemas.length === 1 && only !== undefined ? only : { anyOf: schemas };
  };

  const object = (type: Type, depth: number): JsonSchema => {
    const name = type.getSymbol()?.name ?? '';
    if (type.isTupleType() || checker.isTupleType(type)) {
      const parts = checker.getTypeArguments(type as never).map((one) => of(one, depth + 1));
      return { type: 'array', prefixItems: parts, minItems: parts.length, maxItems: parts.length };
    }
    if (checker.isArrayType(type)) {
      const [item] = checker.getTypeArguments(type as never);
      return { type: 'array', items: item === undefined ? {} : of(item, depth + 1) };
    }
    if (['Set', 'ReadonlySet'].includes(name)) {
      const [item] = checker.getTypeArguments(type as never);
      return { type: 'array', items: item === undefined ? {} : of(item, depth + 1) };
    }
    if (['Map', 'ReadonlyMap'].includes(name)) {
      const [, value] = checker.getTypeArguments(type as never);
      return { type: 'object', additionalProperties: value === undefined ? {} : of(value, depth + 1) };
    }
    return named(type, () => members(type, depth));
  };

  /** A reference to the schema where the type has a name, else the schema itself. */
  const named = (type: Type, schemaOf: () => JsonSchema): JsonSchema => {
    const known = names.get(type.id);
    if (known !== undefined) return { $ref: `#/$defs/${known}` };
    const name = nameOf(type);
    if (name === null) return schemaOf();
    names.set(type.id, name);
    definitions.set(name, {});
    definitions.set(name, schemaOf());
    return { $ref: `#/$defs/${name}` };
  };

  /** Of a type that was given a name, that name, and a number where another one has it too. */
  const nameOf = (type: Type): string | null => {
    const alias = type.getAliasSymbol();
    const symbol = alias ?? type.getSymbol();
    const name = symbol?.name ?? '';
    if (!/^[A-Z]\w*$/.test(name) || type.getAliasTypeArguments().length > 0) return null;
    for (let count = 1; ; count += 1) {
      const free = count === 1 ? name : `${name}${count}`;
      if (!definitions.has(free)) return free;
    }
  };

  const members = (type: Type, depth: number): JsonSchema => {
    const properties: Record<string, JsonSchema> = {};
    const required: string[] = [];
    for (const property of checker.getPropertiesOfType(type)) {
      const own = checker.getTypeOfSymbol(property);
      if (own === undefined) throw new Error(`${place}: ${property.name} has no type`);
      if (checker.getSignaturesOfType(own, 0).length > 0) continue;
      if (property.name.startsWith('__@')) continue;
      const text = commentOf(property);
      within.push(property.name);
      properties[property.name] = { ...of(own, depth + 1), ...(text === '' ? {} : { description: text }) };
      within.pop();
      if (!isOptional(property, own)) required.push(property.name);
    }
    const [index] = checker.getIndexInfosOfType(type);
    return {
      type: 'object',
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
      ...(required.length === 0 ? {} : { required }),
      ...(index === undefined ? {} : { additionalProperties: of(index.valueType, depth + 1) }),
    };
  };

  const commentOf = (symbol: TypeSymbol): string =>
    symbol.getDocumentationComment(checker).replaceAll(/\s+/g, ' ').trim();

  return {
    /** Of one document that is printed. `at`: where, for messages. */
    document(type: Type, at: string): JsonSchema {
      place = at;
      return of(type);
    },
    /** Places whose type says nothing of what is printed. */
    vague: (): readonly string[] => [...vague],
    definitions: (): Readonly<Record<string, JsonSchema>> =>
      Object.fromEntries([...definitions].toSorted(([one], [other]) => one.localeCompare(other))),
  };
}

function literal(value: string | number | boolean | bigint): string | number | boolean {
  return typeof value === 'bigint' ? Number(value) : value;
}

function isOptional(symbol: TypeSymbol, type: Type): boolean {
  const parts = type.isUnionType() ? type.getTypes() : [type];
  return (
    (symbol.flags & SymbolFlags.Optional) !== 0 ||
    parts.some(({ flags }) => (flags & TypeFlags.Undefined) !== 0)
  );
}
