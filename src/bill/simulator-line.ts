import Big from 'big.js';

/** A line of a bill as it is kept. Empty identifiers are none: two empty ones are not the same charge. */
export type BillLine = {
  readonly providerRequestId: string | null;
  readonly messageId: string | null;
  readonly tag: string | null;
  /** ISO 8601. */
  readonly at: string;
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** US dollars as an exact decimal. */
  readonly costUsd: string;
};

/** Reads a line of the simulated provider's bill. Throws an Error that says what is wrong with it. */
export function parseSimulatorLine(text: string): BillLine {
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('not a JSON object');
  const fields = value as Record<string, unknown>;
  return {
    providerRequestId: identifier(fields, 'provider_request_id'),
    messageId: identifier(fields, 'message_id'),
    tag: identifier(fields, 'tag'),
    at: moment(fields, 'at'),
    model: requiredText(fields, 'model'),
    inputTokens: count(fields, 'input_tokens'),
    outputTokens: count(fields, 'output_tokens'),
    costUsd: dollars(fields, 'cost_usd'),
  };
}

function identifier(fields: Record<string, unknown>, name: string): string | null {
  const value = fields[name] ?? '';
  if (typeof value !== 'string' || value.includes('\0')) throw new Error(`${name} is not a text`);
  return value === '' ? null : value;
}

function requiredText(fields: Record<string, unknown>, name: string): string {
  const value = identifier(fields, name);
  if (value === null) throw new Error(`${name} is missing`);
  return value;
}

function moment(fields: Record<string, unknown>, name: string): string {
  const milliseconds = Date.parse(requiredText(fields, name));
  if (Number.isNaN(milliseconds)) throw new Error(`${name} is not a time such as 2026-12-01T03:00:00Z`);
  return new Date(milliseconds).toISOString();
}

function count(fields: Record<string, unknown>, name: string): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new Error(`${name} is not a whole number`);
  }
  return value;
}

/** A text, because a JSON number is a float before anybody can ask. */
function dollars(fields: Record<string, unknown>, name: string): string {
  const value = requiredText(fields, name);
  if (!/^-?\d+(\.\d+)?$/.test(value)) throw new Error(`${name} is not a decimal in quotes, such as "0.0164"`);
  return new Big(value).toFixed();
}
