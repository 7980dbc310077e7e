import Big from 'big.js';

/** What one answer of a model costs here. Fixed per model, so that a night's total is a round figure, unless its request asks for less output. */
export type Charge = {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** US dollars as an exact decimal, e.g. "0.0272". */
  readonly costUsd: string;
};

/** US dollars per million tokens, and the fixed usage: 7 opus and 18 haiku answers cost 0.41 together. */
const PRICE_LIST = {
  'claude-opus-4-6': { input: '5', output: '25', inputTokens: 3000, outputTokens: 488 },
  'claude-opus-4-5': { input: '5', output: '25', inputTokens: 3000, outputTokens: 488 },
  'claude-sonnet-4-5': { input: '3', output: '15', inputTokens: 3000, outputTokens: 488 },
  'claude-haiku-4-5': { input: '1', output: '5', inputTokens: 7200, outputTokens: 1000 },
} as const;

type ListedModel = keyof typeof PRICE_LIST;

/** The models on the price list, in its order. */
export const LISTED_MODELS = Object.keys(PRICE_LIST) as readonly ListedModel[];

/** Of whole answers. Computed once: decimals on every request would cost more than the rest of the answer. */
const CHARGES: ReadonlyMap<string, Charge> = new Map(
  LISTED_MODELS.map((model) => [model, price(model, PRICE_LIST[model].outputTokens)]),
);

/** What a model costs that is not on the list. */
const UNLISTED: ListedModel = 'claude-sonnet-4-5';

/**
 * The charge for one answer of `model` to a request that asks for `maxTokens` of output at most: never for more output than that. A dated
 * snapshot costs what its model costs, an unknown model what sonnet costs.
 */
export function chargeFor(model: string, maxTokens: number): Charge {
  const listed = [model, model.replace(/-\d{8}$/, ''), UNLISTED].find(isListed) ?? UNLISTED;
  const usual = CHARGES.get(listed);
  return usual !== undefined && usual.outputTokens <= maxTokens ? usual : price(listed, maxTokens);
}

/** The input tokens of any request to `model`. */
export function inputTokensOf(model: string): number {
  return chargeFor(model, 0).inputTokens;
}

function isListed(model: string): model is ListedModel {
  return Object.hasOwn(PRICE_LIST, model);
}

function price(model: ListedModel, outputTokens: number): Charge {
  const { input, output, inputTokens } = PRICE_LIST[model];
  const costUsd = new Big(input).times(inputTokens).plus(new Big(output).times(outputTokens)).div(1_000_000).toFixed();
  return { inputTokens, outputTokens, costUsd };
}
