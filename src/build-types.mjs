// npm run build:types, after a build: what TypeScript has to know of the library. tsc writes the declarations of
// src/library.ts; the types of a config and of records are made here, from the schema of configs and the built-in
// definitions, because the package comes without zod. Each file is complete when it gets its name in dist: two builds,
// or a build and `npm pack`, may run at once.
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = path.join(root, 'dist');
const schema = JSON.parse(
  execFileSync(process.execPath, [path.join(dist, 'main.js'), 'config', 'schema'], { encoding: 'utf8' }),
);
const definitions = Object.values(JSON.parse(readFileSync(path.join(dist, 'definitions.json'), 'utf8'))).map(
  ({ file }) => file,
);

const made = mkdtempSync(path.join(dist, '.types-'));
try {
  const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
  const words = [tsc, '-p', path.join(root, 'tsconfig.types.json'), '--outDir', made];
  execFileSync(process.execPath, words, { stdio: 'inherit' });
  writeFileSync(path.join(made, 'library/config.d.ts'), libraryTypes());
  for (const name of readdirSync(made, { recursive: true }).filter((name) => name.endsWith('.d.ts'))) {
    mkdirSync(path.dirname(path.join(dist, name)), { recursive: true });
    renameSync(path.join(made, name), path.join(dist, name));
  }
} finally {
  rmSync(made, { recursive: true, force: true });
}

function libraryTypes() {
  return `${configTypes(schema)}
/** The records of an entity. */
export interface RecordShape {
  /** A record as it is stored and exported. */
  readonly stored: object;
  /** The names of its fields that make up the key. */
  readonly key: string;
  /** A record as \`search\` returns it. */
  readonly found: object;
}

/** Of an entity that is not built in. */
export interface AnyRecord extends RecordShape {
  readonly stored: Readonly<Record<string, unknown>>;
  readonly found: Readonly<Record<string, unknown>>;
}

/** The records of the built-in connector types, by definition and entity. */
export interface BuiltInRecords {
${definitions.map(definitionType).join('')}}
`;
}

function configTypes(config) {
  const { connectors, defaults, ...others } = config.properties;
  const [byName, ...files] = connectors.anyOf;
  // To both, every member of a connector is optional.
  const tsType = 'ConnectorConfig';
  const named = { ...byName, additionalProperties: { tsType } };
  const properties = {
    ...others,
    defaults: { ...defaults, tsType },
    connectors: { anyOf: [named, ...files] },
  };
  const whole = { ...config, properties };
  return `/** An entry below \`connectors\`. */
export interface ConnectorConfig ${typeOf(byName.additionalProperties, '')}

/** What a config file holds, as an object. */
export interface Config ${typeOf(whole, '')}
`;
}

/** Converts the JSON Schema that zod makes of a config to a TypeScript type; anything else ends the build. */
function typeOf(schema, indent) {
  const { type, enum: choices, anyOf, oneOf, properties, items, additionalProperties } = schema;
  if (schema.tsType !== undefined) return schema.tsType;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (choices !== undefined) return choices.map((choice) => JSON.stringify(choice)).join(' | ');
  const several = anyOf ?? oneOf;
  if (several !== undefined) return several.map((one) => typeOf(one, indent)).join(' | ');
  const saysNothing = Object.keys(schema).every((key) => key === 'description');
  if (schema.$ref !== undefined || saysNothing) return 'unknown';
  if (type === 'array') return `ReadonlyArray<${typeOf(items, indent)}>`;
  if (type === 'integer') return 'number';
  if (['string', 'number', 'boolean', 'null'].includes(type)) return type;
  if (type !== 'object') throw new Error(`no type for ${JSON.stringify(schema)}`);
  if (properties === undefined) return `Readonly<Record<string, ${typeOf(additionalProperties, indent)}>>`;
  const inner = `${indent}  `;
  const members = Object.entries(properties).map(([name, one]) => {
    const isRequired = schema.required?.includes(name) === true && one.default === undefined;
    const [optional, orNot] = isRequired ? ['', ''] : ['?', ' | undefined'];
    return `${comment(one, inner)}${inner}readonly ${name}${optional}: ${typeOf(one, inner)}${orNot};\n`;
  });
  return `{\n${members.join('')}${indent}}`;
}

function comment({ description, default: otherwise }, indent) {
  const isShown = otherwise !== undefined && (typeof otherwise !== 'object' || otherwise === null);
  const parts = [description, isShown ? `Default: ${JSON.stringify(otherwise)}` : undefined];
  const text = parts.filter((part) => part !== undefined).join('. ');
  return text === '' ? '' : `${indent}/** ${text.replaceAll('*/', '*\\/')}. */\n`;
}

function definitionType({ name, entities }) {
  const types = Object.entries(entities).flatMap(([entity, file]) => {
    const { fields, key, descriptions, searchable, explode } = file;
    const own = Object.entries(fields).filter(([field]) => field !== explode?.field);
    const found = Object.entries(searchable).map(([field, one]) => [
      field,
      one.shape === 'asIs' ? one.type : 'any',
    ]);
    const all = [entityType(entity, Object.fromEntries(own), { key, descriptions, found })];
    if (explode === null || explode === undefined) return all;
    const carried = explode.carry.map((field) => [field, fields[field] ?? 'any']);
    const elements = Object.fromEntries([...carried, ...Object.entries(explode.fields)]);
    return [...all, entityType(explode.into, elements, { key: explode.key, descriptions, found })];
  });
  return `  readonly ${JSON.stringify(name)}: {\n${types.join('')}  };\n`;
}

function entityType(entity, fields, { key, descriptions, found }) {
  const stored = Object.entries(fields).map(([field, type]) => {
    const text =
      descriptions[field] === undefined
        ? ''
        : `        /** ${descriptions[field].replaceAll('*/', '*\\/')}. */\n`;
    return `${text}        readonly ${field}: ${valueType(type, !key.includes(field))};\n`;
  });
  const searched = found.map(([field, type]) => `        readonly ${field}: ${valueType(type, true)};\n`);
  return `    readonly ${entity}: {
      readonly stored: {\n${stored.join('')}      };
      readonly key: ${key.map((field) => JSON.stringify(field)).join(' | ')};
      readonly found: {\n${searched.join('')}      };
    };\n`;
}

/** The same as `memberWriter` writes. */
function valueType(type, mayBeNull) {
  const types = {
    string: 'string',
    integer: 'number',
    number: 'number',
    boolean: 'boolean',
    object: 'Readonly<Record<string, unknown>>',
    array: 'ReadonlyArray<unknown>',
    any: 'unknown',
  };
  const named = types[type];
  if (named === undefined) throw new Error(`no type for a field of type ${type}`);
  return mayBeNull && type !== 'any' ? `${named} | null` : named;
}
