import { html, type SafeHtml } from '@remix-run/html-template';
import type { Access } from '../routes/endpoint.ts';
import type { JsonSchema, OpenApiDocument, Operation, Parameter } from './open-api-document.ts';

/** An operation of the document, with where it stands there. */
export interface Listed {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

/** Makes the section of an endpoint: who may call it, what it takes, what it gives, and a request to copy. */
export function operationSections({ components }: OpenApiDocument, baseUrl: string) {
  const { fields, typeText } = schemaReader(components.schemas);

  const parameterRow = ({ name, in: place, required, description, deprecated, schema }: Parameter) => [
    html`<code>${name}</code> ${required ? requiredMark : ''}`,
    `${place}, ${typeText(schema)}${limitsOf(schema)}`,
    prose(descriptionOf({ deprecated }, description)),
  ];
  const fieldTable = (rows: ReturnType<typeof fields>, isMarked: boolean): SafeHtml =>
    table(
      'fields',
      rows.map(({ path, type, isRequired, description }) => [
        html`<code>${path}</code> ${isMarked && isRequired ? requiredMark : ''}`,
        type,
        prose(description),
      ]),
    );
  const successDetail = ({ responses }: Operation): SafeHtml[] =>
    Object.entries(responses)
      .filter(([status]) => status.startsWith('2'))
      .flatMap(([status, { content }]) => Object.entries(content).map((one) => [status, ...one] as const))
      .map(([status, mediaType, { schema }]) => {
        const rows = fields(schema);
        if (rows.length === 0) {
          const { description } = schema;
          return description === undefined
            ? html``
            : html`<p><code>${mediaType}</code> ${prose(description)}</p>`;
        }
        // In answers nearly every field is always there: a mark at each would say nothing.
        return html`<details>
          <summary>Fields of the ${status} answer (${mediaType})</summary>
          ${fieldTable(rows, false)}
        </details>`;
      });

  return ({ method, path, operation }: Listed): SafeHtml => {
    const { operationId, summary, description, parameters, requestBody, responses } = operation;
    const body = requestBody?.content['application/json'].schema;
    const own = Object.entries(responses).filter(([status]) => !(status in everywhere));
    return html`<section id="${operationId}">
      <h3>${summary}</h3>
      <p class="address">
        <span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code>
      </p>
      <p class="access">${callers[operation['x-access']]}</p>
      ${description.split('\n\n').map((paragraph) => html`<p>${prose(paragraph)}</p> `)}
      ${
        parameters.length > 0
          ? html`<h4>Parameters</h4>
              ${table('fields', parameters.map(parameterRow))}`
          : ''
      }
      ${
        body === undefined
          ? ''
          : html`<h4>Body</h4>
              ${fieldTable(fields(body), true)}`
      }
      <h4>Example</h4>
      <pre><code>${exampleCurl({ method, path, operation }, baseUrl)}</code></pre>
      <h4>Answers</h4>
      ${statusTable(own.map(([status, { description: when }]) => [status, when]))} ${successDetail(operation)}
    </section> `;
  };
}

export const requiredMark = html`<span class="required">required</span>`;

const callers: Readonly<Record<Access, string>> = {
  public: 'No token is needed.',
  application: 'For application tokens. A scoped token is refused.',
  scoped: 'For scoped tokens. An application token is refused.',
  workspace: 'For application tokens, and for scoped tokens within their workspace.',
  browser:
    "For application tokens, for scoped tokens within their workspace, and for an application's client id and client secret (HTTP Basic).",
};

function limitsOf({ minimum, maximum, default: preset }: Parameter['schema']): string {
  const limits = minimum !== undefined && maximum !== undefined && `, ${minimum} to ${maximum}`;
  return `${limits || ''}${typeof preset === 'number' ? `, default ${preset}` : ''}`;
}

/** Refusals that mean the same at every endpoint: listed once, at the top. */
const everywhere: Readonly<Record<string, string>> = {
  413: 'The body is larger than the service takes.',
  415: 'The body does not say that it is application/json.',
  421: 'The Host header names a host that this service does not answer for.',
  429: 'Too many requests; the header Retry-After says how many seconds to wait.',
  500: 'The service failed.',
};

export function everywhereTable(): SafeHtml {
  return statusTable(Object.entries(everywhere));
}

function statusTable(rows: readonly (readonly [status: string, when: string])[]): SafeHtml {
  return table(
    'status',
    rows.map(([status, when]) => [html`<code>${status}</code>`, prose(when)]),
  );
}

/** The example of an operation as a command for a shell, with `$TOKEN` for the token. */
function exampleCurl({ method, path, operation }: Listed, baseUrl: string): string {
  const url = new URL(path, 'http://none');
  let filled = path;
  for (const { name, in: place, example } of operation.parameters) {
    if (place === 'path') filled = filled.replace(`{${name}}`, String(example ?? name));
    if (place === 'query' && example !== undefined) url.searchParams.set(name, String(example));
  }
  const body = operation.requestBody?.content['application/json'].example;
  const isImplied = method === 'get' || (method === 'post' && body !== undefined);
  return [
    `curl -s${isImplied ? '' : ` -X ${method.toUpperCase()}`} ${quoted(`${baseUrl}${filled}${url.search}`)}`,
    ...(operation['x-access'] === 'public' ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    ...(body === undefined
      ? []
      : [`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`]),
  ].join(' \\\n  ');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

const maxDepth = 6;

/** Reads schemas for a person; references lead into `named`. */
function schemaReader(named: Readonly<Record<string, JsonSchema>>) {
  const resolved = (schema: JsonSchema): JsonSchema =>
    schema.$ref === undefined ? schema : (named[schema.$ref.replace('#/components/schemas/', '')] ?? {});
  /** What a schema may be: itself, or the members of its `anyOf`. */
  const alternatives = (schema: JsonSchema): readonly JsonSchema[] => {
    const found = resolved(schema);
    return found.anyOf?.map(resolved) ?? [found];
  };

  /** As a person would say it: `text`, `array of object`, `"active" or "inactive" or null`. */
  const typeText = (schema: JsonSchema): string => {
    const others = alternatives(schema);
    if (others.length > 1) return others.map(typeText).join(' or ');
    const { enum: values, const: value, type, format, items } = resolved(schema);
    if (value !== undefined) return JSON.stringify(value);
    if (values !== undefined) return values.map((one) => JSON.stringify(one)).join(' or ');
    if (Array.isArray(type)) return type.join(' or ');
    if (type === undefined) return 'anything';
    if (type !== 'array') return format === undefined ? type : `${type} (${format})`;
    const inner = isSchema(items) ? typeText(items) : 'anything';
    return inner === 'anything' ? 'array' : `array of ${inner}`;
  };

  /**
   * The fields of a schema, flattened for a table, outer before inner. `path` leads to one from the root:
   * `data[].name`.
   */
  const fields = (schema: JsonSchema, prefix = '', depth = 0): readonly SchemaField[] => {
    if (depth > maxDepth) return [];
    const { properties = {}, required = [] } = resolved(schema);
    return Object.entries(properties).flatMap(([name, member]) => {
      if (!isSchema(member)) return [];
      const path = `${prefix}${name}`;
      const others = alternatives(member);
      const described = [member, ...others].find(({ description }) => description !== undefined);
      const field = {
        path,
        type: typeText(member),
        isRequired: required.includes(name),
        description: descriptionOf(member, described?.description),
      };
      const inside = others.flatMap((one) =>
        isSchema(one.items)
          ? alternatives(one.items).flatMap((item) => fields(item, `${path}[].`, depth + 1))
          : fields(one, `${path}.`, depth + 1),
      );
      return [field, ...inside];
    });
  };
  return { typeText, fields };
}

interface SchemaField {
  readonly path: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly description: string;
}

function descriptionOf(
  { deprecated }: { readonly deprecated?: boolean | undefined },
  description = '',
): string {
  return `${deprecated === true ? 'Deprecated. ' : ''}${description}`;
}

function isSchema(value: JsonSchema['items']): value is JsonSchema {
  return typeof value === 'object' && !Array.isArray(value);
}

/** Text in which `these` are shown as code. */
export function prose(text: string): SafeHtml {
  return html`${text.split(/`([^`]*)`/).map((part, at) => (at % 2 === 0 ? part : html`<code>${part}</code>`))}`;
}

/** Rows of cells, in a box that scrolls where the screen is narrow, with the keyboard too. */
export function table(
  name: 'fields' | 'status' | 'actions',
  rows: readonly (readonly (string | SafeHtml)[])[],
): SafeHtml {
  const rowOf = (cells: readonly (string | SafeHtml)[]): SafeHtml =>
    html`<tr>
      ${cells.map((cell) => html`<td>${cell}</td>`)}
    </tr>`;
  return html`<div class="wide" tabindex="0">
    <table class="${name}">
      ${rows.map(rowOf)}
    </table>
  </div>`;
}
